package lab

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

const (
	ganesha   = "ganesha"
	imageName = "server.img"
	nfsPort   = "2049"
)

// Server is the NFS server of the lab.
type Server struct{ lab *Lab }

// Addr is where it is mounted from.
func (s *Server) Addr() string {
	if s.lab.st.Kernel {
		return Addr(0)
	}
	return bridgeIP
}

// Status is one word or two of what the server does.
func (s *Server) Status() string {
	if s.lab.st.Kernel {
		return status(hostName(0))
	}
	return status(ganesha)
}

// Pause hangs the server: mounts wait.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	if s.lab.st.Kernel {
		return s.lab.hosts[0].signal(sig)
	}
	p, err := running(ganesha)
	if err != nil {
		return err
	}
	return p.signal(sig)
}

// Kill ends the server at once. Ganesha loses nothing by that, for its data is in this
// machine's page cache; a kernel server loses power, and all that was not synced.
func (s *Server) Kill() error {
	if s.lab.st.Kernel {
		return s.lab.hosts[0].Kill()
	}
	return endRecorded(context.Background(), ganesha)
}

// Start starts a server that does not run and returns when it takes connections.
func (s *Server) Start(ctx context.Context) error {
	if s.lab.st.Kernel {
		if err := s.lab.makeImage(ctx); err != nil {
			return err
		}
		return s.lab.hosts[0].Boot(ctx)
	}
	if _, err := running(ganesha); err == nil {
		return fmt.Errorf("the server runs already")
	}
	conf := s.lab.run("ganesha.conf")
	if err := replace(conf, []byte(s.lab.ganeshaConfig())); err != nil {
		return err
	}
	log := s.lab.log(ganesha)
	p, err := s.lab.start(ganesha, log, "ganesha.nfsd", "-F", "-f", conf, "-L", log, "-p", s.lab.run("ganesha.pid"))
	if err != nil {
		return err
	}
	return await(ctx, "start of the NFS server", bootTime, func(ctx context.Context) (bool, error, error) {
		if !p.alive() {
			return false, nil, fmt.Errorf("ganesha has ended: %s", end(log))
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		conn, err := s.lab.DialContext(ctx, "tcp", net.JoinHostPort(s.Addr(), nfsPort))
		if err != nil {
			return false, err, nil
		}
		return true, nil, conn.Close()
	})
}

// ganeshaConfig exports the directory as /data. Leases are short, so that a restarted
// server and a host that lost power are done with soon; there are no delegations.
func (l *Lab) ganeshaConfig() string {
	return fmt.Sprintf(`NFS_CORE_PARAM { Protocols = 4; NFS_Port = %s; Enable_NLM = false; Enable_RQUOTA = false; Bind_addr = %s; }
NFSv4 {
  Graceless = true; Lease_Lifetime = 10; Grace_Period = 2; Minor_Versions = 1, 2; Delegations = false;
  RecoveryBackend = fs; RecoveryRoot = %s;
}
EXPORT {
  Export_Id = 1; Path = %s; Pseudo = /data; Access_Type = RW; Squash = No_Root_Squash; SecType = sys;
  Protocols = 4; Transports = TCP; FSAL { Name = VFS; }
}
LOG { Default_Log_Level = WARN; }
`, nfsPort, bridgeIP, l.run("recovery"), l.Export())
}

// makeImage makes the kernel server's disk unless it is there.
func (l *Lab) makeImage(ctx context.Context) error {
	d, err := substrate.OpenDir(filepath.Dir(l.run(imageName)))
	if err != nil {
		return err
	}
	if f, err := d.Open(imageName); err == nil {
		return f.Close()
	}
	_, err = command(ctx, "mkfs.ext4", "-q", "-E", "lazy_itable_init=1,lazy_journal_init=1", l.run(imageName), fmt.Sprintf("%dM", l.st.ImageMB))
	return err
}
