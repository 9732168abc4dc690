package main

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// machine is where and of what a comparison was made. It names no host and no path.
type machine struct {
	Date       string  `json:"date"`
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	MemoryGB   float64 `json:"memory_gb"`
	Kernel     string  `json:"kernel"`
	Filesystem string  `json:"filesystem"`
	Go         string  `json:"go"`
	Java       string  `json:"java"`
	Kafka      string  `json:"kafka"`
	Commit     string  `json:"commit"`
	LoadBefore float64 `json:"load_before"` // of one minute
	Seconds    float64 `json:"seconds"`

	began time.Time
}

func describeMachine(ctx context.Context, kafka string, s *scratch) *machine {
	m := &machine{
		began: time.Now(), Date: time.Now().UTC().Format(time.DateOnly),
		Cores: runtime.NumCPU(), Go: runtime.Version(), Kafka: kafka,
		Kernel: kernel(), Filesystem: filesystem(s.path("")), Commit: commit(ctx),
	}
	if out, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput(); err == nil {
		m.Java = javaVersion(string(out))
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	if cpus, err := proc.CPUInfo(); err == nil && len(cpus) > 0 {
		m.CPU = cpus[0].ModelName
	}
	if mem, err := proc.Meminfo(); err == nil && mem.MemTotalBytes != nil {
		m.MemoryGB = float64(*mem.MemTotalBytes) / 1e9
	}
	if load, err := proc.LoadAvg(); err == nil {
		m.LoadBefore = load.Load1
	}
	return m
}

func (m *machine) finish() { m.Seconds = time.Since(m.began).Seconds() }

// javaVersion takes the number out of `openjdk version "17.0.15" 2025-04-15`.
func javaVersion(out string) string {
	if parts := strings.Split(out, `"`); len(parts) > 1 {
		return parts[1]
	}
	return ""
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	version, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-")
	return "Linux " + version
}

func filesystem(dir string) string {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return "unknown"
	}
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.TMPFS_MAGIC: "tmpfs", unix.NFS_SUPER_MAGIC: "nfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	}
	if name, ok := names[int64(s.Type)]; ok {
		return name
	}
	return fmt.Sprintf("of type %#x", s.Type)
}

// commit is the short hash of the working tree, and says if files differ from it.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty=, with changes", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func (m *machine) text(c *comparison) string {
	return fmt.Sprintf(`Written by `+"`task bench:compare`"+` on %s at commit %s. %s, %d cores, %.0f GB, %s, %s.
kaas built by %s; Apache Kafka %s, one node as broker and controller, Java %s with the heap of its start
script (1 GB). Both ran side by side, each alone under load, by turns, the first one changing; %d rounds of
%.1f s for each figure after a warm-up, of which the median is given, with a wait before each until the disk is
calm. The load average was %.2f before, and everything took %.0f minutes.

Load: franz-go on the same machine over loopback, acks=all, idempotent, linger 5 ms, batches to 16 KiB, 2 MiB
held by each producer, so latency at full speed is mostly waiting in the producer. *ratio* is kaas divided by
Kafka: throughput should be above 1, all else below. CPU is the server's own.
`, m.Date, m.Commit, m.CPU, m.Cores, m.MemoryGB, m.Kernel, m.Filesystem,
		m.Go, m.Kafka, m.Java, c.Rounds, c.Cell.Seconds(), m.LoadBefore, m.Seconds/60)
}
