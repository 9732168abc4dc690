package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/tools/nfslab/lab"
)

func installCommand() *cobra.Command {
	var kernel bool
	cmd := &cobra.Command{
		Use: "install", Short: "Install what the lab needs by apt-get, as root", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return lab.Install(cmd.Context(), kernel) },
	}
	cmd.Flags().BoolVar(&kernel, "kernel", true, "also for up --kernel")
	return cmd
}

func ableCommand() *cobra.Command {
	return &cobra.Command{
		Use: "able", Short: "Print in one line why this machine cannot have a lab; nothing if it can", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			if err := lab.Unable(); err != nil {
				fmt.Fprintln(cmd.OutOrStdout(), err)
			}
		},
	}
}

func upCommand() *cobra.Command {
	opt, brokers := lab.Options{Detach: true}, 0
	cmd := &cobra.Command{
		Use: "up", Short: "Start the hosts, and brokers on the first of them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd, opt, brokers) },
	}
	f := cmd.Flags()
	f.IntVar(&opt.Hosts, "hosts", 3, "number of hosts")
	f.IntVar(&opt.MemMB, "mem", 1024, "memory of each host, `MB`")
	f.StringVar(&opt.Mount, "mount", "", "further mount `options`, such as acregmin=0,lookupcache=positive")
	f.BoolVar(&opt.Kernel, "kernel", false, "the kernel's NFS server, delegations on, in a host of its own")
	f.StringVar(&opt.Dir, "dir", "", "`directory` to make the lab's in; the system's temporary one unless given")
	f.IntVar(&brokers, "brokers", 0, "number of hosts that get a broker, from host 1")
	return cmd
}

func up(cmd *cobra.Command, opt lab.Options, brokers int) error {
	if brokers > opt.Hosts {
		return fmt.Errorf("%d brokers do not fit on %d hosts", brokers, opt.Hosts)
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	l, err := lab.Up(ctx, opt)
	if err != nil {
		return err
	}
	for n := 1; n <= opt.Hosts; n++ {
		fmt.Fprintf(out, "%s  %s\n", l.Host(n).Name(), l.Host(n).Addr())
	}
	if brokers == 0 {
		return nil
	}
	if err := startBrokers(cmd, l, brokers); err != nil {
		return fmt.Errorf("%w; the lab is still up", err)
	}
	fmt.Fprintln(out, "clients run with: nfslab ns COMMAND …")
	return nil
}

func startBrokers(cmd *cobra.Command, l *lab.Lab, brokers int) error {
	bin, err := l.BuildBroker(cmd.Context())
	if err != nil {
		return err
	}
	bs, err := l.StartBrokers(cmd.Context(), brokers, bin)
	for n, b := range bs {
		tell(cmd, n+1, b)
	}
	return err
}

// tell prints where a broker is, if it was started.
func tell(cmd *cobra.Command, n int, b *lab.Broker) {
	if b != nil {
		fmt.Fprintf(cmd.OutOrStdout(), "broker %d at %s, process %d, log %s\n", n, b.Addr, b.PID, b.Log)
	}
}

func brokerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "broker N [-- FLAGS]", Short: "Start a broker on host N", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, h, err := find(args[0])
			if err != nil {
				return err
			}
			bin, err := l.BuildBroker(cmd.Context())
			if err != nil {
				return err
			}
			b, err := l.StartBroker(cmd.Context(), h.Number(), bin, args[1:]...)
			tell(cmd, h.Number(), b)
			return err
		},
	}
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "End all and remove all", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.Open()
			if err != nil {
				return err
			}
			return l.Down(cmd.Context())
		},
	}
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Tell what runs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.Open()
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "server %s  %s\nlogs   %s\n", l.Server().Addr(), l.Server().Status(), l.Logs())
			for n := 1; n <= l.Hosts(); n++ {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  %s\n", l.Host(n).Name(), l.Host(n).Addr(), l.Host(n).Status())
			}
			return nil
		},
	}
}

func execCommand() *cobra.Command {
	return &cobra.Command{
		Use: "exec N COMMAND", Short: "Run a bash command on host N, in the directory of the volume", Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, h, err := find(args[0])
			if err != nil {
				return err
			}
			code, err := h.ExecTo(cmd.Context(), cmd.OutOrStdout(), strings.Join(args[1:], " "))
			if err == nil && code != 0 {
				return exitCode(code)
			}
			return err
		},
	}
}

func spawnCommand() *cobra.Command {
	return &cobra.Command{
		Use: "spawn N COMMAND", Short: "Run a bash command on host N in the background", Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, h, err := find(args[0])
			if err != nil {
				return err
			}
			p, err := h.Spawn(cmd.Context(), "spawn", strings.Join(args[1:], " "))
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d %s\n", p.PID, p.Log)
			return nil
		},
	}
}

func nsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ns COMMAND …", Short: "Run a program of this machine within the lab's network",
		Args: cobra.MinimumNArgs(1), DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lab.Open()
			if err != nil {
				return err
			}
			c := l.Command(cmd.Context(), args...)
			c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
			return c.Run()
		},
	}
}

// hostCommands are those that do one thing to one host.
func hostCommands() (out []*cobra.Command) {
	for _, c := range []struct {
		name, short string
		do          func(context.Context, *lab.Host) error
	}{
		{"kill", "Cut the power of host N", func(_ context.Context, h *lab.Host) error { return h.Kill() }},
		{"boot", "Start host N again", func(ctx context.Context, h *lab.Host) error { return h.Boot(ctx) }},
		{"pause", "Freeze host N", func(_ context.Context, h *lab.Host) error { return h.Pause() }},
		{"resume", "Thaw host N", func(_ context.Context, h *lab.Host) error { return h.Resume() }},
		{"cut", "Take host N off the network", func(ctx context.Context, h *lab.Host) error { return h.Cut(ctx) }},
		{"heal", "Put host N back on the network", func(ctx context.Context, h *lab.Host) error { return h.Heal(ctx) }},
	} {
		out = append(out, &cobra.Command{
			Use: c.name + " N", Short: c.short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				_, h, err := find(args[0])
				if err != nil {
					return err
				}
				return c.do(cmd.Context(), h)
			},
		})
	}
	return out
}

func clockCommand() *cobra.Command {
	var ahead time.Duration
	cmd := &cobra.Command{
		Use: "clock N", Short: "Set the clock of host N, or tell how far it is ahead of this machine's", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, h, err := find(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("ahead") {
				if err := h.SetClock(cmd.Context(), ahead); err != nil {
					return err
				}
			}
			is, within, err := h.Clock(cmd.Context())
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%v ahead, within %v\n", is.Round(time.Millisecond), within.Round(time.Microsecond))
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&ahead, "ahead", 0, "set it to be so far ahead, such as 1h, or -1h")
	return cmd
}

func serverCommand() *cobra.Command {
	parent := &cobra.Command{Use: "server", Short: "Hang, kill and start the NFS server"}
	for _, c := range []struct {
		name, short string
		do          func(context.Context, *lab.Server) error
	}{
		{"pause", "Hang it", func(_ context.Context, s *lab.Server) error { return s.Pause() }},
		{"resume", "Let it go on", func(_ context.Context, s *lab.Server) error { return s.Resume() }},
		{"kill", "End it at once; with up --kernel a power loss", func(_ context.Context, s *lab.Server) error { return s.Kill() }},
		{"start", "Start it again", func(ctx context.Context, s *lab.Server) error { return s.Start(ctx) }},
	} {
		parent.AddCommand(&cobra.Command{
			Use: c.name, Short: c.short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				l, err := lab.Open()
				if err != nil {
					return err
				}
				return c.do(cmd.Context(), l.Server())
			},
		})
	}
	return parent
}

// find is the lab that is up and its host of that number.
func find(number string) (*lab.Lab, *lab.Host, error) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil, nil, fmt.Errorf("%q is no host's number", number)
	}
	l, err := lab.Open()
	if err != nil {
		return nil, nil, err
	}
	h, err := l.Lookup(n)
	return l, h, err
}
