package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// options are what the command line and the environment say.
type options struct {
	bootstrap     string
	commandConfig string
	kubeconfig    string
	namespaces    []string
	reserved      []string
	resync        time.Duration
	retry         time.Duration
	rewrite       time.Duration
	workers       int
	metrics       string
	probes        string
	elect         bool
	electIn       string
	leaseName     string
	lease         time.Duration
	logLevel      slog.Level
}

// envPrefix stands before a flag's name in the environment.
const envPrefix = "KAAS_OPERATOR_"

func parse(args []string, env func(string) string, out io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("operator", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.bootstrap, "bootstrap-servers", "", "`HOST:PORT` of brokers to begin with, with commas between them")
	f.StringVar(&o.commandConfig, "command-config", "", "`file` of a client's properties, as Kafka's tools take it")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach Kubernetes; not needed in a pod")
	f.Func("namespaces", "`namespaces` whose resources count, with commas between them; all if not given", func(s string) error {
		o.namespaces = items(s, ",")
		return nil
	})
	f.Func("reserved-users", "`names` of users that no resource may be for, with semicolons between them", func(s string) error {
		o.reserved = items(s, ";")
		return nil
	})
	f.DurationVar(&o.resync, "resync", 2*time.Minute, "how often everything is compared with the cluster")
	f.DurationVar(&o.retry, "max-retry", 30*time.Second, "most `time` between two tries of what fails")
	f.DurationVar(&o.rewrite, "rewrite-passwords", time.Hour, "how often passwords are set again, for others' changes of them cannot be seen")
	f.IntVar(&o.workers, "workers", 4, "how many resources of a kind are looked at at a time")
	f.StringVar(&o.metrics, "metrics", ":8080", "`address` of /metrics; 0 is none")
	f.StringVar(&o.probes, "probes", ":8081", "`address` of /healthz and /readyz; 0 is none")
	f.BoolVar(&o.elect, "leader-election", true, "work only while being elected, by a Lease")
	f.StringVar(&o.electIn, "leader-election-namespace", "", "`namespace` of the Lease; the pod's if not given")
	f.StringVar(&o.leaseName, "leader-election-name", "kaas-operator", "`name` of the Lease: operators of one name are in turns, those of others work beside them")
	f.DurationVar(&o.lease, "lease", 30*time.Second, "how long a Lease holds that is not renewed")
	f.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "DEBUG, INFO, WARN or ERROR")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag", f.Arg(0))
	}
	given := map[string]bool{}
	f.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	var errs []error
	f.VisitAll(func(fl *flag.Flag) {
		key := envPrefix + strings.ToUpper(strings.ReplaceAll(fl.Name, "-", "_"))
		if v := env(key); v != "" && !given[fl.Name] {
			if err := f.Set(fl.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", key, err))
			}
		}
	})
	for name, d := range map[string]time.Duration{"resync": o.resync, "max-retry": o.retry, "rewrite-passwords": o.rewrite, "lease": o.lease} {
		if d < time.Second {
			errs = append(errs, fmt.Errorf("--%s: %v is less than a second", name, d))
		}
	}
	if o.elect && o.leaseName == "" {
		errs = append(errs, errors.New("--leader-election-name: there is none"))
	}
	if o.workers < 1 {
		errs = append(errs, errors.New("--workers: at least one is needed"))
	}
	return o, errors.Join(errs...)
}

// items are those of a list.
func items(list, separator string) (all []string) {
	for item := range strings.SplitSeq(list, separator) {
		if item = strings.TrimSpace(item); item != "" {
			all = append(all, item)
		}
	}
	return all
}
