package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// plugins is where Debian has those of CNI.
const plugins = "/usr/lib/cni"

// needs are files of others by the Debian package that has them.
var needs = []struct{ file, pkg string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{plugins + "/ptp", "containernetworking-plugins"},
	{"nft", "nftables"},
	{"conntrack", "conntrack"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
	{"mount", "mount"},
}

// install installs what is missing by apt-get.
func install(ctx context.Context, log io.Writer) error {
	// Not every root has these in his path.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		return err
	}
	var missing []string
	for _, n := range needs {
		if _, err := exec.LookPath(n.file); err != nil {
			missing = append(missing, n.pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	fmt.Fprintln(log, "installing by apt-get:", strings.Join(missing, " "))
	return errors.Join(
		apt(ctx, "update", "-qq"),
		apt(ctx, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)...),
	)
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}
