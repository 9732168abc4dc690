package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/auth/sasl"
	"kaas.dev/kaas/tools/kaas-meta/history"
	"kaas.dev/kaas/tools/kaas-meta/users"
)

func (a *app) userCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Who may log in with SCRAM: the first administrator, before any broker",
		Long: "List, add and remove users that log in with SCRAM, on the volume and without a broker. A directory that holds nothing\n" +
			"yet is made a volume, so that the first administrator is there before the first broker. Brokers may be running: the\n" +
			"controller is followed by the next one. Where somebody can log in already, kafka-configs.sh does the same through a\n" +
			"broker. Passwords are never read from the command line, and never stored: only what proves them is.",
	}
	cmd.AddCommand(a.userListCommand(), a.userAddCommand(), a.userDeleteCommand())
	return cmd
}

func (a *app) userListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "The users that log in with SCRAM",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := a.open()
			if err != nil {
				return err
			}
			c, err := history.ReadCluster(cmd.Context(), v)
			if err != nil {
				return err
			}
			return a.showUsers(c)
		},
	}
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

type userShown struct {
	User       string    `json:"user"`
	Mechanism  string    `json:"mechanism"`
	Iterations int32     `json:"iterations"`
	Set        time.Time `json:"set"`
}

func (a *app) showUsers(c *projections.Cluster) error {
	all := []userShown{}
	lines := [][]string{{"USER", "MECHANISM", "ITERATIONS", "SET"}}
	for _, s := range c.ScramCredentials() {
		all = append(all, userShown{s.User, s.Mechanism.String(), s.Iterations, s.SetAt})
		lines = append(lines, []string{shown(s.User), s.Mechanism.String(), strconv.Itoa(int(s.Iterations)), s.SetAt.Format(time.RFC3339)})
	}
	if a.output != "table" {
		return a.print(all)
	}
	return rows(a.out, a.screen, lines...)
}

// adding is what user add is asked for.
type adding struct {
	mechanisms []string
	iterations int32
	file       string
	clusterID  string
}

func (a *app) userAddCommand() *cobra.Command {
	var add adding
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a user, or give one another password",
		Long: "Add a user, or give one another password. The password is asked for on a terminal, twice; else it is the first line\n" +
			"of standard input, or of a file.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ms, err := mechanisms(add.mechanisms)
			if err != nil {
				return err
			}
			if args[0] == "" {
				return usagef("NAME is empty")
			}
			if !utf8.ValidString(args[0]) {
				return usagef("NAME is not UTF-8: no client could say it")
			}
			if n := add.iterations; n < projections.MinScramIterations || n > projections.MaxScramIterations {
				return usagef("--iterations %d: must be from %d to %d", n, projections.MinScramIterations, projections.MaxScramIterations)
			}
			password, err := readPassword(cmd, add.file, args[0])
			if err != nil {
				return err
			}
			return a.addUser(cmd.Context(), args[0], password, ms, &add)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&add.mechanisms, "mechanism", []string{sasl.ScramSHA512}, "SCRAM-SHA-256, SCRAM-SHA-512, or both with a comma between them")
	f.Int32Var(&add.iterations, "iterations", projections.MinScramIterations, "rounds of hashing, which make guessing dear")
	f.StringVar(&add.file, "password-file", "", "a file whose first line is the password")
	f.StringVar(&add.clusterID, "cluster-id", "", "the volume's ID: that of a new one, or what one must have")
	_ = cmd.RegisterFlagCompletionFunc("mechanism", cobra.FixedCompletions([]string{sasl.ScramSHA256, sasl.ScramSHA512}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func mechanisms(names []string) (out []projections.ScramMechanism, err error) {
	for _, name := range names {
		switch strings.ToUpper(name) {
		case sasl.ScramSHA256:
			out = append(out, projections.ScramSHA256)
		case sasl.ScramSHA512:
			out = append(out, projections.ScramSHA512)
		default:
			return nil, usagef("--mechanism %s: must be %s or %s", name, sasl.ScramSHA256, sasl.ScramSHA512)
		}
	}
	return out, nil
}

// asUser is whose session users are changed under.
func asUser() users.Who {
	host, _ := os.Hostname() // for people
	return users.Who{Host: host, PID: os.Getpid(), Now: time.Now}
}

func (a *app) addUser(ctx context.Context, name, password string, ms []projections.ScramMechanism, add *adding) error {
	var facts []projections.Fact
	for _, m := range ms {
		c, err := sasl.NewCredential(name, m, password, add.iterations)
		if err != nil {
			return err
		}
		c.SetAt = time.Now().UnixMilli()
		facts = append(facts, c)
	}
	v, made, err := a.openOrMake(add.clusterID)
	if err != nil {
		return err
	}
	pos, err := users.Apply(ctx, v, asUser(), fmt.Sprintf("user %q added offline", name), users.Add(facts...))
	if err != nil {
		return err
	}
	if made {
		fmt.Fprintf(a.out, "%s is a new volume, of cluster %s\n", a.dir, v.ID)
	}
	_, err = fmt.Fprintf(a.out, "user %q may log in; entry %s of the cluster's stream\n", name, pos)
	return err
}

// openOrMake opens the volume, or makes one where a directory is missing or holds nothing.
func (a *app) openOrMake(id string) (v *substrate.Volume, made bool, err error) {
	if a.dir == "" {
		return nil, false, usagef("--dir is not set: name the volume's directory")
	}
	fs, err := substrate.MakeDir(a.dir)
	if err != nil {
		return nil, false, err
	}
	fs.Private()
	v = &substrate.Volume{FS: fs}
	es, err := v.ListFresh(".")
	made = len(es) == 0
	if err == nil && made {
		if m, merr := fs.Mount(); merr == nil {
			err = m.Unfit()
		}
	}
	if err == nil && !made {
		_, err = substrate.ReadVolume(fs)
	}
	if err == nil {
		err = v.Init(id)
	}
	if err != nil && made {
		fs.Unmake()
	}
	return v, made, err
}

func (a *app) userDeleteCommand() *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Remove what a user logs in with",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			only, err := mechanisms(names)
			if err != nil {
				return err
			}
			v, err := a.open()
			if err != nil {
				return err
			}
			return a.deleteUser(cmd.Context(), v, args[0], only)
		},
	}
	cmd.Flags().StringSliceVar(&names, "mechanism", nil, "only with these mechanisms (all if not given)")
	return cmd
}

func (a *app) deleteUser(ctx context.Context, v *substrate.Volume, name string, only []projections.ScramMechanism) error {
	if len(only) == 0 {
		only = []projections.ScramMechanism{projections.ScramSHA256, projections.ScramSHA512}
	}
	pos, err := users.Apply(ctx, v, asUser(), fmt.Sprintf("user %q removed offline", name), users.Remove(name, only))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "user %q may not log in any more; entry %s of the cluster's stream\n", name, pos)
	return err
}

var errNoPassword = errors.New("there is no password: the first line is empty")

// readPassword takes a password from a file, from a terminal, or from standard input.
func readPassword(cmd *cobra.Command, file, user string) (string, error) {
	in := cmd.InOrStdin()
	if file != "" {
		d, err := substrate.OpenDir(filepath.Dir(file))
		if err != nil {
			return "", err
		}
		b, err := (&substrate.Volume{FS: d}).ReadFile(filepath.Base(file))
		if err != nil {
			return "", err
		}
		in = strings.NewReader(string(b))
	} else if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return askPassword(cmd, int(f.Fd()), user)
	}
	b, err := io.ReadAll(io.LimitReader(in, 64<<10))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", errNoPassword
	}
	return line, nil
}

func askPassword(cmd *cobra.Command, fd int, user string) (string, error) {
	ask := func(what string) (string, error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s of %q: ", what, user)
		b, err := term.ReadPassword(fd)
		fmt.Fprintln(cmd.ErrOrStderr())
		return string(b), err
	}
	first, err := ask("Password")
	if err != nil {
		return "", err
	}
	if first == "" {
		return "", errNoPassword
	}
	again, err := ask("Once more, the password")
	if err == nil && again != first {
		err = errors.New("the two are not the same")
	}
	return first, err
}
