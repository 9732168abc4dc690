package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is a tree of control groups: one of several of version 1, or that of version 2.
type hierarchy struct {
	mount   string // where it is mounted
	options string // of that mount, such as cpu,cpuacct or name=systemd; none for version 2
	ours    string // the group of this process, below mount
}

func (h hierarchy) v2() bool { return h.options == "" }

// hierarchies are those that are mounted, with the group of this process in each.
func hierarchies() ([]hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	all := parseHierarchies(string(mounts), ownGroups(string(groups)))
	if len(all) == 0 {
		return nil, errors.New("no control groups are mounted")
	}
	return all, nil
}

func parseHierarchies(mountinfo string, groups map[string]string) []hierarchy {
	var all []hierarchy
	seen := map[string]bool{}
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if len(place) < 5 || len(kind) < 3 || kind[0] != "cgroup" && kind[0] != "cgroup2" {
			continue
		}
		h := hierarchy{mount: place[4]}
		if kind[0] == "cgroup" {
			h.options = ownOptions(kind[2], groups)
		}
		group, ok := groups[h.options]
		if !ok || seen[h.options] {
			continue
		}
		seen[h.options] = true
		var err error
		h.ours, err = filepath.Rel(place[3], group)
		if err != nil || strings.HasPrefix(h.ours, "..") { // our group is not to be seen there
			h.ours = "."
		}
		all = append(all, h)
	}
	return all
}

// ownGroups are the groups of a process by the names of their controllers, as /proc tells them.
func ownGroups(cgroup string) map[string]string {
	groups := map[string]string{}
	for line := range strings.Lines(cgroup) {
		if part := strings.SplitN(strings.TrimSpace(line), ":", 3); len(part) == 3 {
			groups[part[1]] = part[2]
		}
	}
	return groups
}

// ownOptions picks from the options of a mount the controllers, as the groups name them.
func ownOptions(options string, groups map[string]string) string {
	for controllers := range groups {
		if controllers != "" && containsAll(strings.Split(options, ","), strings.Split(controllers, ",")) {
			return controllers
		}
	}
	return "?"
}

func containsAll(set, want []string) bool {
	has := map[string]bool{}
	for _, s := range set {
		has[s] = true
	}
	for _, w := range want {
		if !has[w] {
			return false
		}
	}
	return true
}

// group is where the node's is, in a hierarchy. In version 2 a group that has processes can
// have no others below it, so there it is at the top.
func (n *Node) group(h hierarchy) string {
	if h.v2() {
		return filepath.Join(h.mount, n.cgroup())
	}
	return filepath.Join(h.mount, h.ours, n.cgroup())
}

// enterCgroups takes this process into new groups, which what it starts meanwhile is born in.
func (n *Node) enterCgroups() (leave func() error, err error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	leave = func() (err error) {
		for _, h := range all {
			err = errors.Join(err, enter(filepath.Join(h.mount, h.ours)))
		}
		return err
	}
	for _, h := range all {
		if err := n.enterCgroup(h); err != nil {
			return nil, errors.Join(fmt.Errorf("control group: %w", err), leave())
		}
	}
	return leave, nil
}

func (n *Node) enterCgroup(h hierarchy) error {
	group := n.group(h)
	if err := os.MkdirAll(group, 0o755); err != nil {
		return err
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // a new group of version 1 has none
		b, err := os.ReadFile(filepath.Join(filepath.Dir(group), file))
		if h.v2() || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := errors.Join(err, os.WriteFile(filepath.Join(group, file), b, 0)); err != nil {
			return err
		}
	}
	return enter(group)
}

func enter(group string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// mountCgroups is done inside, where the node's groups are the tops of their hierarchies.
func mountCgroups(all []hierarchy) error {
	const base = "/sys/fs/cgroup"
	if len(all) == 1 && all[0].v2() {
		if err := unix.Mount("cgroup2", base, "cgroup2", 0, ""); err != nil {
			return fmt.Errorf("mount control groups: %w", err)
		}
		first := filepath.Join(base, "first")
		return errors.Join(os.Mkdir(first, 0o755), enter(first))
	}
	if err := unix.Mount("tmpfs", base, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount control groups: %w", err)
	}
	for _, h := range all {
		dir, kind, options := filepath.Join(base, strings.TrimPrefix(h.options, "name=")), "cgroup", h.options
		if h.v2() {
			dir, kind = filepath.Join(base, "unified"), "cgroup2"
		}
		if strings.HasPrefix(options, "name=") {
			options = "none," + options
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(kind, dir, kind, 0, options); err != nil {
			return fmt.Errorf("mount %s with %q: %w", dir, options, err)
		}
		if err := linkControllers(base, h.options); err != nil {
			return err
		}
	}
	return nil
}

// linkControllers makes controllers that share a hierarchy to be found one by one.
func linkControllers(base, options string) (err error) {
	if parts := strings.Split(options, ","); len(parts) > 1 {
		for _, part := range parts {
			err = errors.Join(err, os.Symlink(options, filepath.Join(base, part)))
		}
	}
	return err
}

// removeCgroups removes the node's groups once they are empty, which the kernel makes them a
// moment after their processes have ended.
func (n *Node) removeCgroups(ctx context.Context) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		for err := removeGroup(n.group(h)); err != nil; err = removeGroup(n.group(h)) {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("control group: %w", err)
			}
		}
	}
	return nil
}

// removeGroup removes a group and those below it. Their files are the kernel's.
func removeGroup(dir string) error {
	below, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range below {
		if e.IsDir() {
			if err := removeGroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}
