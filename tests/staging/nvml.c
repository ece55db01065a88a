/* A libnvidia-ml.so.1 without a driver: FAKE_NVML_COUNT GPUs, else one, whose figures stand in the file that FAKE_NVML names.
 * Its first line is a GPU's memory in bytes: total, used. Each further line is a process on the last GPU: pid, bytes.
 * Without FAKE_NVML the driver is not loaded. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory { unsigned version; unsigned long long total, reserved, free, used; };
struct process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };

static FILE *state(void) { return fopen(getenv("FAKE_NVML"), "r"); }

static unsigned gpus(void) { const char *count = getenv("FAKE_NVML_COUNT"); return count ? atoi(count) : 1; }

int nvmlInit_v2(void) { return getenv("FAKE_NVML") ? 0 : 9; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "?"; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = gpus(); return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(unsigned long)(index + 1);
    return index < gpus() ? 0 : 2;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "580.00.00");
    return 0;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *memory) {
    FILE *file = state();
    (void)device;
    if (!file || fscanf(file, "%llu %llu", &memory->total, &memory->used) != 2) return 999;
    memory->free = memory->total - memory->used;
    fclose(file);
    return 0;
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *count) {
    (void)device; (void)type; (void)counter;
    *count = 2;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *processes) {
    FILE *file = state();
    unsigned long long skipped, used;
    unsigned found = 0, pid;
    if ((unsigned long)device < gpus()) { *count = 0; return 0; }
    if (!file || fscanf(file, "%llu %llu", &skipped, &skipped) != 2) return 999;
    while (fscanf(file, "%u %llu", &pid, &used) == 2) {
        if (processes && found < *count) {
            memset(&processes[found], 0, sizeof *processes);
            processes[found].pid = pid;
            processes[found].used = used;
        }
        found++;
    }
    fclose(file);
    int small = !processes && found > 0;
    *count = found;
    return small ? 7 : 0;
}
