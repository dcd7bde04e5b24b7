# Two network hosts of one machine: namespaces joined by a cable. Arguments: python, folder, then the command's words.
set -e
python=$1; shift
folder=$1; shift
mount -t tmpfs hosts /run
# Names are looked up in a file: these hosts have no name server, and would wait for one.
printf '127.0.0.1 localhost\n10.77.0.1 host1\n10.77.0.2 host2\n' > /run/hosts
: > /run/resolv.conf
mount --bind /run/hosts /etc/hosts
mount --bind /run/resolv.conf "$(readlink -f /etc/resolv.conf)" 2>/dev/null || true
for host in 1 2; do ip netns add host$host; done
ip link add cable1 netns host1 type veth peer name cable2 netns host2
for host in 1 2; do
    ip -n host$host addr add 10.77.0.$host/24 dev cable$host
    ip -n host$host link set cable$host up
    ip -n host$host link set lo up
done
for host in 1 2; do
    ip netns exec host$host env GLOO_SOCKET_IFNAME=cable$host unshare --uts sh -c 'hostname $0 && exec "$@"' host$host \
        "$python" -m accelerate.commands.launch \
        --config_file "$("$python" -m hf_longseq env --launch_config multi_node)" --num_machines 2 --num_processes 2 \
        --machine_rank $((host - 1)) --main_process_ip 10.77.0.1 --main_process_port 29577 \
        -m hf_longseq "$@" > "$folder/host$host.log" 2>&1 &
    pids="$pids $!"
done
for pid in $pids; do wait "$pid"; done
