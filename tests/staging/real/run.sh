#!/bin/bash
# Records one run of SCRIPT on a private Ray in a cgroup of MIB MiB: run.sh NAME SCRIPT MODE MIB
# Environment: RT is the raytrace program, PY is a Python with Ray and the libraries, and OUT is the
# folder for all files. The driver's exit code is in NAME.exit.
N=$1 S=$(readlink -f "$2") MODE=$3 LIMIT=$(( $4 << 20 ))
mkdir -p "$OUT"; export RAY_AUTH_MODE=disabled REALRL=1 RAY_ADDRESS=127.0.0.1:7399 OMP_NUM_THREADS=1
G=/sys/fs/cgroup/memory/real-$N; mkdir -p "$G"; echo $LIMIT > "$G/memory.limit_in_bytes"
( echo $BASHPID > "$G/cgroup.procs"
  exec "$(dirname "$PY")/ray" start --head --temp-dir=/tmp/realrl --port=7399 --num-cpus=2 --include-dashboard=false \
    --object-store-memory=134217728 --disable-usage-stats ) > "$OUT/$N.start.log" 2>&1
"$RT" record -o "$OUT/$N.raytrace" --session-dir "$(readlink -f /tmp/realrl/session_latest)" > "$OUT/$N.record.log" 2>&1 & REC=$!
sleep 5
( echo $BASHPID > "$G/cgroup.procs"; exec timeout 100 "$PY" "$S" "$MODE" ) > "$OUT/$N.driver.log" 2>&1
echo "driver exit $?" > "$OUT/$N.exit"; cat "$G/memory.max_usage_in_bytes" > "$OUT/$N.peak"
sleep 3; kill -INT $REC; wait $REC
for s in TERM KILL; do
  for p in $(cat "$G/cgroup.procs"); do kill -$s "$p"; done 2> /dev/null
  sleep 2
done
rmdir "$G"; cat "$OUT/$N.exit"
