package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"kaas.dev/kaas/internal/substrate"
)

const (
	dataDir = "/mnt/data"
	logDir  = "/mnt/logs"
	// modulesDir is where Debian keeps the modules of User-Mode Linux.
	modulesDir = "/usr/lib/uml/modules"
)

// Run is process 1. It returns only if the host cannot even be reached.
func Run() error {
	for k, v := range map[string]string{"HOME": "/run", "TMPDIR": "/run",
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} {
		if err := os.Setenv(k, v); err != nil {
			return err
		}
	}
	conf, err := load(os.Getenv(ConfigVar))
	if err != nil {
		return err
	}
	if err := reachable(conf); err != nil {
		return err
	}
	a := &agent{ready: make(chan struct{})}
	go func() { // for the life of the host
		a.failed = conf.setup()
		close(a.ready)
	}()
	return a.serve(conf.Agent)
}

func load(file string) (c Config, err error) {
	d, err := substrate.OpenDir(filepath.Dir(file))
	if err != nil {
		return c, err
	}
	f, err := d.Open(filepath.Base(file))
	if err != nil {
		return c, err
	}
	defer f.Close()
	err = json.NewDecoder(io.NewSectionReader(f, 0, 1<<20)).Decode(&c)
	return c, err
}

// reachable makes the scratch directories and the network.
func reachable(c Config) error {
	for _, m := range []struct{ dir, kind string }{{"/proc", "proc"}, {"/sys", "sysfs"}, {"/run", "tmpfs"}, {"/mnt", "tmpfs"}} {
		if err := mount(m.kind, m.dir, m.kind, ""); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte(c.Name)); err != nil {
		return err
	}
	return run("ip link set lo up", "ip addr add "+c.Addr+" dev eth0", "ip link set eth0 up")
}

// setup mounts the logs and the volume, or serves the volume.
func (c Config) setup() error {
	for _, dir := range []string{dataDir, logDir} {
		if _, err := substrate.MakeDir(dir); err != nil {
			return err
		}
	}
	if err := mount("logs", logDir, "hostfs", c.Logs); err != nil {
		return err
	}
	if c.Server == "" {
		return c.serveVolume()
	}
	if err := loadModules("nfsv4"); err != nil {
		return err
	}
	host, _, _ := strings.Cut(c.Addr, "/")
	opts := fmt.Sprintf("vers=4.1,hard,clientaddr=%s,addr=%s", host, c.Server)
	if c.Mount != "" {
		opts += "," + c.Mount
	}
	return run("mount -t nfs4 -o " + opts + " " + c.Server + ":/data " + dataDir)
}

func mount(source, dir, kind, data string) error {
	if err := unix.Mount(source, dir, kind, 0, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, dir, err)
	}
	return nil
}

// run runs programs one after the other until one fails.
func run(lines ...string) error {
	for _, line := range lines {
		words := strings.Fields(line)
		out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// loadModules loads modules and what they need.
func loadModules(names string) error {
	// modprobe wants them below lib/modules of a directory.
	const dir = "/run/kernel"
	return run("mkdir -p "+dir+"/lib", "ln -s "+modulesDir+" "+dir+"/lib/modules", "modprobe -d "+dir+" -a "+names)
}
