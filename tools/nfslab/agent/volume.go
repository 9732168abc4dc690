package agent

import (
	"path"

	"golang.org/x/sys/unix"

	"kaas.dev/kaas/internal/substrate"
)

const (
	diskNode  = "/run/disk"
	exportDir = "/mnt/export"
	stateDir  = "/var/lib/nfs"
	leaseTime = "10" // seconds, as with ganesha
)

// ubdMajor is the number of User-Mode Linux's block devices.
const ubdMajor = 98

// serveVolume serves the disk's directory data with the kernel's own server. What the
// server must remember of its clients is on the disk too.
func (c Config) serveVolume() error {
	if err := unix.Mknod(diskNode, unix.S_IFBLK|0o600, int(unix.Mkdev(ubdMajor, 0))); err != nil {
		return err
	}
	for _, dir := range []string{exportDir, "/run/rpc_pipefs"} {
		if _, err := substrate.MakeDir(dir); err != nil {
			return err
		}
	}
	if err := mount(diskNode, exportDir, "ext4", ""); err != nil {
		return err
	}
	for _, dir := range []string{"data", "state/v4recovery", "state/sm", "state/rpc_pipefs"} {
		if _, err := substrate.MakeDir(path.Join(exportDir, dir)); err != nil {
			return err
		}
	}
	if err := unix.Mount(path.Join(exportDir, "state"), stateDir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := loadModules("nfsd ext4"); err != nil {
		return err
	}
	if err := mount("nfsd", "/proc/fs/nfsd", "nfsd", ""); err != nil {
		return err
	}
	return run(
		"touch "+stateDir+"/etab "+stateDir+"/rmtab", // which exportfs wants to be there
		"exportfs -o rw,sync,no_subtree_check,no_root_squash,fsid=0 "+c.Subnet+":"+exportDir,
		"rpc.mountd --no-nfs-version 3",
		"rpc.nfsd --no-nfs-version 3 --no-udp --lease-time "+leaseTime+" --grace-time "+leaseTime+" 8",
	)
}
