package substrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const nfsOptions = "rw,vers=4.1,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys,clientaddr=10.0.0.2,local_lock=none,addr=10.0.0.1"

// mountLines is a host with what a table can hold: a bound directory of an NFS mount,
// blanks and backslashes in names, points that begin alike, a mount over another, and
// one that a later mount hides.
const mountLines = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
23 22 0:21 / /proc rw,relatime shared:5 - proc proc rw
30 22 0:40 / /mnt/data rw,relatime shared:9 master:3 - nfs4 10.0.0.1:/export ` + nfsOptions + `
31 22 0:41 / /mnt/data2 rw,relatime - xfs /dev/vdb rw
32 22 0:40 /brokers/a /var/lib/kaas rw,nodev,relatime - nfs4 10.0.0.1:/export ` + nfsOptions + `
33 22 0:42 / /mnt/with\040blank\134and\011tab rw - tmpfs none rw,size=4k
34 30 0:43 / /mnt/data/inner rw,nosuid propagate_from:2 - nfs 10.0.0.3:/x rw,vers=3,soft,nocto
35 22 0:44 / /run/first rw - ext4 /dev/vdc rw
36 35 0:45 / /run/first rw - tmpfs second rw
37 22 0:46 / /srv/a/b rw - xfs /dev/hidden rw
38 22 0:47 / /srv/a rw - tmpfs over rw
40 22 0:48 / /ctr rw,relatime - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/u,workdir=/w
41 22 0:49 / /fuse rw - fuse.glusterfs  rw,allow_other
`

func TestFindMount(t *testing.T) {
	for _, c := range []struct{ dir, point, kind, source, root string }{
		{"/", "/", "ext4", "/dev/vda", "/"},
		{"/home/k", "/", "ext4", "/dev/vda", "/"},
		{"/mnt/data", "/mnt/data", "nfs4", "10.0.0.1:/export", "/"},
		{"/mnt/data/kaas", "/mnt/data", "nfs4", "10.0.0.1:/export", "/"},
		{"/mnt/data2/kaas", "/mnt/data2", "xfs", "/dev/vdb", "/"},
		{"/mnt/data3", "/", "ext4", "/dev/vda", "/"},
		{"/mnt/data/inner/x", "/mnt/data/inner", "nfs", "10.0.0.3:/x", "/"},
		{"/var/lib/kaas/topics", "/var/lib/kaas", "nfs4", "10.0.0.1:/export", "/brokers/a"},
		{"/mnt/with blank\\and\ttab/x", "/mnt/with blank\\and\ttab", "tmpfs", "none", "/"},
		{"/run/first/x", "/run/first", "tmpfs", "second", "/"},
		{"/srv/a/b/c", "/srv/a", "tmpfs", "over", "/"},
		{"/ctr/data", "/ctr", "overlay", "overlay", "/"},
		{"/fuse/x", "/fuse", "fuse.glusterfs", "", "/"},
	} {
		m, err := findMount(mountLines, c.dir)
		if err != nil {
			t.Fatal(err)
		}
		if m.Point != c.point || m.Type != c.kind || m.Source != c.source || m.Root != c.root {
			t.Errorf("%s is on %+v", c.dir, m)
		}
	}
}

func TestMountOptions(t *testing.T) {
	m, err := findMount(mountLines, "/var/lib/kaas")
	if err != nil {
		t.Fatal(err)
	}
	if !m.Has("hard") || !m.Has("nodev") || m.Has("soft") || m.Value("vers") != "4.1" || m.Value("addr") != "10.0.0.1" || m.Value("nothing") != "" {
		t.Errorf("options are %v", m.Options)
	}
	if strings.Count(strings.Join(m.Options, " "), "rw") != 1 {
		t.Errorf("options stand twice: %v", m.Options)
	}
	if m, err = findMount(mountLines, "/fuse"); err != nil || !m.Has("allow_other") {
		t.Errorf("options of a mount without a source: %v, %v", m.Options, err)
	}
}

func TestVerdictOnMounts(t *testing.T) {
	nfs := func(options string) Mount {
		return Mount{Point: "/mnt/data", Type: "nfs4", Options: strings.Split(options, ",")}
	}
	for _, c := range []struct {
		m     Mount
		unfit bool
		warns []string
	}{
		{nfs(nfsOptions), false, nil},
		{nfs("rw,vers=4.2,hard,proto=tcp,acregmin=0,acdirmax=600,lookupcache=none,local_lock=all"), false, nil},
		{nfs("rw,vers=4.1,hard,nocto,proto=tcp"), true, nil},
		{nfs("rw,vers=4.1,soft,proto=tcp"), false, []string{"soft"}},
		{nfs("rw,vers=4.1,softerr,softreval,proto=tcp"), false, []string{"softerr"}},
		{nfs("rw,vers=3,soft,nocto,proto=udp"), true, []string{"soft", "vers=3", "proto=udp"}},
		{Mount{Point: "/", Type: "ext4", Options: []string{"rw", "nocto", "soft"}}, false, nil},
	} {
		err := c.m.Unfit()
		if (err != nil) != c.unfit {
			t.Errorf("%v: %v", c.m.Options, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "/mnt/data") || !strings.Contains(err.Error(), "nocto") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("the error does not name the mount point and the option in one line: %v", err)
		}
		warns := c.m.Warnings()
		if len(warns) != len(c.warns) {
			t.Fatalf("%v: %q, want warnings of %v", c.m.Options, warns, c.warns)
		}
		for i, w := range c.warns {
			if !strings.HasPrefix(warns[i], "/mnt/data is mounted with "+w+": ") {
				t.Errorf("%q does not name the mount point and %s", warns[i], w)
			}
		}
	}
}

func TestMountTableThatIsNotUnderstood(t *testing.T) {
	for name, table := range map[string]string{
		"no separator":      "22 1 254:0 / / rw,relatime ext4 /dev/vda rw\n",
		"too short":         "22 1 / / - ext4 /dev/vda rw\n",
		"nothing":           "",
		"nothing that fits": "22 1 254:0 / /other rw - ext4 /dev/vda rw\n",
		"a circle":          "22 23 254:0 / / rw - ext4 /dev/vda rw\n23 22 254:0 / / rw - ext4 /dev/vda rw\n",
	} {
		if m, err := findMount(table, "/data"); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	// The root may be its own parent.
	if m, err := findMount("22 22 254:0 / / rw - ext4 /dev/vda rw\n", "/data"); err != nil || m.Source != "/dev/vda" {
		t.Errorf("%+v, %v", m, err)
	}
	for in, want := range map[string]string{`\040a\134`: ` a\`, `\04`: `\04`, `\089`: `\089`, `\777`: `\777`, `a`: `a`} {
		if got := unescape(in); got != want {
			t.Errorf("%q is unescaped to %q", in, got)
		}
	}
}

// TestMountOfThisHost looks at a file system that this test mounts, through a symbolic link.
func TestMountOfThisHost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with blank")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	under, err := MountOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("kaas-test", dir, "tmpfs", unix.MS_NODEV, "size=1m"); err != nil {
		t.Skipf("a file system of 1 MiB cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	link := filepath.Join(filepath.Dir(dir), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	fs, err := MakeDir(filepath.Join(link, "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := fs.Mount()
	if err != nil {
		t.Fatal(err)
	}
	if m.Point != dir || m.Type != "tmpfs" || m.Source != "kaas-test" || !m.Has("nodev") || m.Point == under.Point || m.NFS() || !m.Local() {
		t.Errorf("%+v", m)
	}
}
