package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
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
