package node

import (
	"slices"
	"testing"
)

func TestHierarchies(t *testing.T) {
	for _, tc := range []struct {
		name, mounts, groups string
		want                 []hierarchy
		group                []string // the node's, whose directory has no name
	}{
		{
			name:   "version 2",
			mounts: "26 22 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			groups: "0::/user.slice/session-1.scope\n",
			want:   []hierarchy{{"/sys/fs/cgroup", "", "user.slice/session-1.scope"}},
			group:  []string{"/sys/fs/cgroup/kaas-k8snode-e3b0c442"},
		},
		{
			name: "version 1 with version 2 beside it",
			mounts: "27 1 254:0 / / rw - ext4 /dev/vda rw\n" +
				"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
				"37 31 0:34 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n" +
				"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
				"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			groups: "9:name=systemd:/\n7:blkio:/a/b\n1:cpu,cpuacct:/\n0::/\n",
			want: []hierarchy{
				{"/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct", "."}, {"/sys/fs/cgroup/blkio", "blkio", "a/b"},
				{"/sys/fs/cgroup/systemd", "name=systemd", "."}, {"/sys/fs/cgroup/unified", "", "."},
			},
			group: []string{
				"/sys/fs/cgroup/cpu,cpuacct/kaas-k8snode-e3b0c442", "/sys/fs/cgroup/blkio/a/b/kaas-k8snode-e3b0c442",
				"/sys/fs/cgroup/systemd/kaas-k8snode-e3b0c442", "/sys/fs/cgroup/unified/kaas-k8snode-e3b0c442",
			},
		},
		{
			name: "in a container that sees its own group, and one hierarchy twice",
			mounts: "32 31 0:29 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"33 31 0:29 / /elsewhere rw - cgroup cgroup rw,memory\n",
			groups: "4:memory:/docker/1\n",
			want:   []hierarchy{{"/sys/fs/cgroup/memory", "memory", "."}},
			group:  []string{"/sys/fs/cgroup/memory/kaas-k8snode-e3b0c442"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := parseHierarchies(tc.mounts, ownGroups(tc.groups))
			if !slices.Equal(got, tc.want) {
				t.Fatalf("found %v, want %v", got, tc.want)
			}
			for i, h := range got {
				if group := (&Node{}).group(h); group != tc.group[i] {
					t.Errorf("the node's group is %s, want %s", group, tc.group[i])
				}
			}
		})
	}
}
