package agent

import (
	"bufio"
	"cmp"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// machine is what the node's object says of the machine.
type machine struct {
	ip       string
	capacity corev1.ResourceList
	info     corev1.NodeSystemInfo
}

func lookAtMachine(config Config) machine {
	found := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(runtime.GOMAXPROCS(0)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(totalMemory(), resource.BinarySI),
	}
	if size, _, ok := diskSpace(config.DataDir); ok {
		found[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(size, resource.BinarySI)
	}
	return machine{
		ip:       cmp.Or(config.Node.IP, firstAddress()),
		capacity: config.capacity(found),
		info: corev1.NodeSystemInfo{
			OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
			OSImage:       cmp.Or(osImage("/etc/os-release"), runtime.GOOS),
			KernelVersion: line("/proc/sys/kernel/osrelease"),
			MachineID:     cmp.Or(line("/etc/machine-id"), line("/var/lib/dbus/machine-id")),
			SystemUUID:    line("/sys/class/dmi/id/product_uuid"),
			BootID:        line("/proc/sys/kernel/random/boot_id"),
		},
	}
}

// firstAddress is the machine's first address that others can reach: IPv4 before IPv6, the loopback for none.
func firstAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	six := ""
	for _, a := range addresses {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || !n.IP.IsGlobalUnicast():
		case n.IP.To4() != nil:
			return n.IP.String()
		case six == "":
			six = n.IP.String()
		}
	}
	return cmp.Or(six, "127.0.0.1")
}

// line is the only line of a file, "" where there is none.
func line(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// osImage is the name of the system as os-release gives it.
func osImage(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for text := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(text), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// totalMemory is the machine's memory, or the limit of the cgroup that the agent was started in.
func totalMemory() int64 {
	total := memoryInfo("MemTotal")
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if limit, err := strconv.ParseInt(line(path), 10, 64); err == nil && limit > 0 && (total == 0 || limit < total) {
			total = limit
		}
	}
	return total
}

// memoryInfo is an entry of the kernel's memory table in bytes, 0 where there is none.
func memoryInfo(name string) int64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		value, ok := strings.CutPrefix(lines.Text(), name+":")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0
		}
		return kib << 10
	}
	return 0
}

// The bounds at which the node is under pressure, as the kubelet has them.
const (
	lowMemory      = 100 << 20
	lowDiskPercent = 10
)

// pressure are the node's conditions of memory, disk and processes.
func pressure(dataDir string) []corev1.NodeCondition {
	memory := corev1.NodeCondition{
		Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory",
		Message: "the node has sufficient memory available",
	}
	if free := memoryInfo("MemAvailable"); free > 0 && free < lowMemory {
		memory.Status, memory.Reason = corev1.ConditionTrue, "KubeletHasInsufficientMemory"
		memory.Message = "the node has less than 100 MiB of memory available"
	}
	disk := corev1.NodeCondition{
		Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure",
		Message: "the node has no disk pressure",
	}
	if size, free, ok := diskSpace(dataDir); ok && free < size/100*lowDiskPercent {
		disk.Status, disk.Reason = corev1.ConditionTrue, "KubeletHasDiskPressure"
		disk.Message = "less than 10 % of the disk of the node's data folder is free"
	}
	processes := corev1.NodeCondition{
		Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID",
		Message: "the node has sufficient PID available",
	}
	if limit, err := strconv.Atoi(line("/proc/sys/kernel/pid_max")); err == nil && lowOnProcesses(limit) {
		processes.Status, processes.Reason = corev1.ConditionTrue, "KubeletHasInsufficientPID"
		processes.Message = "more than 90 % of the node's process numbers are taken"
	}
	return []corev1.NodeCondition{memory, disk, processes}
}

// lowOnProcesses reads the number of tasks from the kernel's load figures: "0.00 0.01 0.05 1/123 4567".
func lowOnProcesses(limit int) bool {
	figures := strings.Fields(line("/proc/loadavg"))
	if len(figures) < 4 {
		return false
	}
	_, tasks, _ := strings.Cut(figures[3], "/")
	n, err := strconv.Atoi(tasks)
	return err == nil && n > limit/10*9
}
