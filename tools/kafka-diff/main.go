// Command kafka-diff sends the same requests to Apache Kafka 4.4 and to kaas, and compares
// their answers field by field.
//
//	kafka-diff [--only REGEXP] [--odd] [--steps] [--kaas BINARY] [--dir DIRECTORY]
//
// It starts one broker of each with the same settings and runs scripts on both side by side:
// every API that both serve, in every version, with valid and invalid arguments. What two
// brokers cannot have in common, such as the IDs that they make, is replaced by symbols. Kafka
// comes from Maven; kaas is built from this module.
//
// It prints how many answers were compared and which of the intended differences it has met;
// see intended.go. Any other difference, an intended one that is not met any more, and a
// version that no script asks for end it with 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var p plan
	cmd := &cobra.Command{
		Use: "kafka-diff", Short: "Compare the answers of Apache Kafka and kaas", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd.Context(), os.Stdout) },
	}
	cmd.Flags().StringVar(&p.only, "only", "", "run only the scripts whose names this `regexp` finds")
	cmd.Flags().BoolVar(&p.odd, "odd", false, "run the scripts that put odd values into every field, too; not all that they find is in the list")
	cmd.Flags().BoolVar(&p.steps, "steps", false, "print every step with both answers")
	cmd.Flags().StringVar(&p.kaas, "kaas", "", "`binary` of the broker; built from this module if not given")
	cmd.Flags().StringVar(&p.dir, "dir", filepath.Join(os.TempDir(), "kafka-diff-"+strconv.Itoa(os.Getpid())), "`directory` of the brokers, made and removed")
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kafka-diff:", err)
		os.Exit(1)
	}
}

// plan is what a run is told.
type plan struct {
	only  string
	odd   bool
	steps bool
	kaas  string
	dir   string
}

func (p *plan) run(ctx context.Context, out io.Writer) error {
	only, err := regexp.Compile(p.only)
	if err != nil {
		return err
	}
	began := time.Now()
	dir, err := substrate.MakeDir(p.dir)
	if err != nil {
		return err
	}
	defer dir.Unmake()
	defer removeTree(dir, ".")
	sides, stop, err := p.start(ctx, dir.Root())
	if err != nil {
		return err
	}
	defer stop()
	if err := meet(sides); err != nil {
		return err
	}
	scripts := scripts
	if p.odd {
		scripts = slices.Concat(scripts, oddScripts)
	}
	if err := runAll(ctx, sides, scripts, only); err != nil {
		return err
	}
	found := compareSteps(sides[0].steps, sides[1].steps)
	if p.steps {
		printSteps(out, sides)
	}
	r := judge(found, intended)
	r.compared, r.took = len(sides[0].steps), time.Since(began)
	if p.only == "" {
		r.missed = unasked(sides[0])
	} else {
		r.stale = nil
	}
	return r.print(out)
}

// removeTree removes a directory's content, as far as that can be done.
func removeTree(d *substrate.DirFS, name string) {
	entries, err := d.List(name)
	if err != nil {
		return
	}
	for _, e := range entries {
		at := filepath.Join(name, e.Name)
		if d.Remove(at) != nil {
			removeTree(d, at)
			_ = d.Remove(at)
		}
	}
}

var errDiffer = errors.New("there are differences that are not intended")
