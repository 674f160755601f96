#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing 2>/dev/null
mount -t securityfs security /sys/kernel/security
export LD_LIBRARY_PATH=/opt/fake-cuda NO_COLOR=1
ulimit -l 64
echo '=== release'; uname -r
echo '=== preemption'; cat /sys/kernel/debug/sched/preempt
echo '=== locked'; cat /sys/kernel/security/lockdown
echo '=== doctor'; /opt/cudasnoop doctor
echo '=== child'
/opt/cudasnoop record -o /tmp/child.arrows -- /opt/workload --iterations 20 --layer both --forks 2 > /tmp/child
echo '=== made by child'; cat /tmp/child
echo '=== told of child'; /opt/cudasnoop report --json /tmp/child.arrows
# What a process of this name does, and what is told of it.
observe() {
    echo "=== $1"
    mkfifo /tmp/gate-$1
    /opt/workload --wait call --gate /tmp/gate-$1 --threads 8 --iterations $2 --layer both > /tmp/$1 &
    workload=$!
    /opt/cudasnoop record -o /tmp/$1.arrows -p $workload 2> /tmp/log-$1 &
    recorder=$!
    until grep -q 'tracing.*libcudart' /tmp/log-$1 && grep -q 'tracing.*libcuda.so' /tmp/log-$1; do
        kill -0 $recorder || break
        sleep 1
    done
    echo > /tmp/gate-$1
    wait $workload
    wait $recorder
    cat /tmp/log-$1
    echo "=== made by $1"; cat /tmp/$1
    echo "=== told of $1"; /opt/cudasnoop report --json /tmp/$1.arrows
}
/opt/perf record --all-cpus --call-graph fp --event cpu-clock --freq 199 --output /tmp/perf.data &
perf=$!
observe other 100
echo '=== sampled'
kill $perf
wait $perf
mount -t tmpfs none /sys/kernel/btf
echo '=== typeless child'
/opt/cudasnoop record -o /tmp/typeless.arrows -- /opt/workload
observe typeless 20
echo '=== end'
poweroff -f
