#!/bin/bash
# Starts or stops a Slurm of one node in a folder, without systemd: slurm.sh up|down FOLDER [linux].
# As root. Debian's packages: slurmd slurmctld slurm-client munge. With `linux` it uses no cgroups,
# and slurmstepd kills for memory.
set -e
D=$2
plugins=cgroup
tasks=cgroup
track=cgroup
over=
if [ "$3" = linux ]; then
  plugins=linux
  tasks=none
  track=linuxproc
  over='JobAcctGatherParams=OverMemoryKill
JobAcctGatherFrequency=task=2'
fi
up() {
  mkdir -p "$D/state" "$D/spool"
  chmod 755 "$D"
  cat > "$D/slurm.conf" <<C
ClusterName=raytrace
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=17311
SlurmdPort=17312
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/slurmd.pid
SlurmctldLogFile=$D/slurmctld.log
SlurmdLogFile=$D/slurmd.log
ProctrackType=proctrack/$track
TaskPlugin=task/$tasks
JobAcctGatherType=jobacct_gather/$plugins
$over
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=2
NodeName=rt1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 CPUs=2 RealMemory=4000
PartitionName=low Nodes=rt1 Default=YES PriorityTier=1 PreemptMode=CANCEL GraceTime=2
PartitionName=high Nodes=rt1 PriorityTier=10 PreemptMode=OFF
C
  plugin=cgroup/v1
  [ ! -e /sys/fs/cgroup/cgroup.controllers ] || plugin=cgroup/v2
  printf 'CgroupPlugin=%s\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\nConstrainRAMSpace=yes\n' \
    $plugin > "$D/cgroup.conf"
  install -d -o munge -g munge -m 755 /run/munge
  if [ ! -S /run/munge/munge.socket.2 ]; then
    runuser -u munge -- munged
    cp /run/munge/munged.pid "$D/munged.pid"
  fi
  export SLURM_CONF=$D/slurm.conf
  slurmctld -i
  slurmd -N rt1
  for _ in $(seq 150); do
    if sinfo -h -o %T | grep -q idle; then exit 0; fi
    sleep 0.2
  done
  tail -n 5 "$D/slurmctld.log" "$D/slurmd.log" >&2
  exit 1
}
down() {
  for one in slurmd slurmctld munged; do
    [ ! -s "$D/$one.pid" ] || kill "$(cat "$D/$one.pid")" || true
  done
}
$1
