package substrate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mountTable is where the kernel tells what this process sees mounted.
const mountTable = "/proc/self/mountinfo"

// Mount is what the kernel says of the mount that a directory is on. It is for people
// and for refusing what cannot work: nothing safe rests on it.
type Mount struct {
	Point   string   `json:"point"`   // where it is mounted
	Root    string   `json:"root"`    // which directory of the file system is there; not / where it is bound
	Type    string   `json:"type"`    // nfs4, ext4, …
	Source  string   `json:"source"`  // server:/path, or a device
	Options []string `json:"options"` // of the mount and of the file system, as the kernel prints them
}

// MountOf finds the mount that dir, which must exist, is on.
func MountOf(dir string) (Mount, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return Mount{}, fmt.Errorf("mount of %s: %w", dir, err)
	}
	table, err := os.ReadFile(mountTable)
	if err != nil {
		return Mount{}, fmt.Errorf("mount of %s: %w", dir, err)
	}
	return findMount(string(table), abs)
}

// Mount is the mount that the directory is on.
func (d *DirFS) Mount() (Mount, error) { return MountOf(d.root) }

// NFS reports whether it is the kernel's NFS client.
func (m Mount) NFS() bool { return m.Type == "nfs" || m.Type == "nfs4" }

// Has reports whether an option without a value is set.
func (m Mount) Has(option string) bool { return slices.Contains(m.Options, option) }

// Value is what an option is set to, empty if it is not.
func (m Mount) Value(option string) string {
	for _, o := range m.Options {
		if v, ok := strings.CutPrefix(o, option+"="); ok {
			return v
		}
	}
	return ""
}

// local are the file systems of one host, which no other one sees.
var local = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay"}

// Unfit is why no broker may use the mount, nil if nothing is known against it.
func (m Mount) Unfit() error {
	if m.NFS() && m.Has("nocto") {
		return fmt.Errorf("%s is mounted with nocto, so that a broker may not see what another one has written: mount it without (docs/volume.md)", m.Point)
	}
	return nil
}

// Warnings are what speaks against the mount, a line each.
func (m Mount) Warnings() (out []string) {
	warn := func(option, why string) {
		out = append(out, fmt.Sprintf("%s is mounted with %s: %s (docs/volume.md)", m.Point, option, why))
	}
	if !m.NFS() {
		return nil
	}
	for _, soft := range []string{"soft", "softerr"} {
		if m.Has(soft) {
			warn(soft, "a call that takes too long fails though the server may still carry it out, and partitions go offline instead of waiting; use hard")
		}
	}
	if v := m.Value("vers"); v != "" && v < "4" {
		warn("vers="+v, "kaas is made for version 4, in which a call that is sent again is carried out once; use vers=4.1 or later")
	}
	if m.Value("proto") == "udp" {
		warn("proto=udp", "datagrams that are put together wrongly damage data; use tcp")
	}
	return out
}

// Local reports a file system that no other host sees.
func (m Mount) Local() bool { return slices.Contains(local, m.Type) }
