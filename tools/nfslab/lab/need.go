package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"kaas.dev/kaas/internal/substrate"
)

// Packages are Debian's packages that a lab needs.
var Packages = []string{"user-mode-linux", "nfs-ganesha", "nfs-ganesha-vfs", "nfs-common", "iproute2", "kmod"}

// KernelPackages are needed besides them for Options.Kernel.
var KernelPackages = []string{"nfs-kernel-server", "e2fsprogs"}

// programs tells which package each program comes from.
var programs = []struct{ name, pkg string }{
	{"linux.uml", "user-mode-linux"},
	{"ganesha.nfsd", "nfs-ganesha"},
	{"mount.nfs4", "nfs-common"},
	{"ip", "iproute2"},
	{"modprobe", "kmod"},
}

var kernelPrograms = []struct{ name, pkg string }{
	{"rpc.nfsd", "nfs-kernel-server"},
	{"exportfs", "nfs-kernel-server"},
	{"mkfs.ext4", "e2fsprogs"},
}

// Missing is nil, or an error of one line that says what to install.
func Missing(kernel bool) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("nfslab needs root: it makes a network namespace and mounts")
	}
	want, pkgs := programs, Packages
	if kernel {
		want, pkgs = append(want[:len(want):len(want)], kernelPrograms...), append(pkgs[:len(pkgs):len(pkgs)], KernelPackages...)
	}
	var gone []string
	for _, p := range want {
		if _, err := exec.LookPath(p.name); err != nil {
			gone = append(gone, p.name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return fmt.Errorf("%s missing: run `nfslab install`, or apt-get install -y %s", strings.Join(gone, ", "), strings.Join(pkgs, " "))
}

// Unable is nil, or in one line why this machine cannot have a lab, whatever is installed on
// it. A machine that is able and lacks something is another matter: see Missing.
func Unable() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can make hosts and mount NFS")
	}
	if err := Missing(true); err != nil {
		if _, none := exec.LookPath("apt-get"); none != nil || runtime.GOARCH != "amd64" {
			return fmt.Errorf("%w, and this is no Debian on amd64", err)
		}
	}
	for _, can := range []struct {
		what string
		try  func() error
	}{{"network namespaces", tryNamespace}, {"network devices of its own", tryTap}, {"tracing processes", tryTrace}, {"file handles in " + os.TempDir(), tryHandle}} {
		if err := can.try(); err != nil {
			return fmt.Errorf("this machine does not allow %s: %w", can.what, err)
		}
	}
	return nil
}

func tryNamespace() error {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	return cmd.Run()
}

func tryTap() error {
	d, err := substrate.OpenDir("/dev/net")
	if err != nil {
		return err
	}
	f, err := d.Open("tun")
	if err != nil {
		return err
	}
	return f.Close()
}

// tryTrace does what a host's kernel does with the processes on it.
func tryTrace() error {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &ws, 0, nil); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	return errors.Join(syscall.PtraceDetach(cmd.Process.Pid), cmd.Wait())
}

// tryHandle does what the NFS server does with the files that it serves.
func tryHandle() error {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, os.TempDir(), 0)
	if err != nil {
		return err
	}
	d, err := substrate.OpenDir(os.TempDir())
	if err != nil {
		return err
	}
	f, err := d.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	dir, ok := f.(interface{ Fd() uintptr })
	if !ok {
		return fmt.Errorf("%s is no open file of this process", os.TempDir())
	}
	fd, err := unix.OpenByHandleAt(int(dir.Fd()), h, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// Install installs by apt-get what is missing, as root.
func Install(ctx context.Context, kernel bool) error {
	if Missing(kernel) == nil {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("only root can install packages")
	}
	pkgs := Packages
	if kernel {
		pkgs = append(pkgs[:len(pkgs):len(pkgs)], KernelPackages...)
	}
	if err := aptGet(ctx, "update", "-qq"); err != nil {
		return err
	}
	if err := aptGet(ctx, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, pkgs...)...); err != nil {
		return err
	}
	return Missing(kernel)
}

func aptGet(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, out)
	}
	return nil
}
