// Command as-kafka runs Apache Kafka where a test would run a broker of kaas: it takes the
// broker's flags. A test that passes with it asks for nothing that Kafka does not do.
//
//	go build -o FILE ./tools/as-kafka
//	KAAS_E2E_BROKER=FILE KAAS_E2E=1 go test -run Group ./tools/e2e
//	go run ./tools/kaas-check run --binary FILE --faults kill,graceful
//
// Every broker has a directory of its own below log.dirs, which is formatted at its first
// start. Without a node.id a broker is alone; otherwise it is one of brokers 1 to 3, each of
// which is a controller, too. Where the controllers listen follows from the directory's name.
// http.listeners is left out; every other setting is Kafka's. Further listeners may stand
// behind the first one, which brokers use among themselves and has to be PLAINTEXT.
//
// Maven finds Kafka, once for each start, unless AS_KAFKA_CLASSPATH names its jars.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/internal/kafka"
)

func main() {
	var sets []string
	cmd := &cobra.Command{Use: "as-kafka", Short: "Run Apache Kafka with a broker's flags", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, RunE: func(*cobra.Command, []string) error {
		return run(sets)
	}}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "`key=value`; may be repeated")
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "as-kafka:", err)
		os.Exit(1)
	}
}

// alone is the ID of a broker without one.
const alone = "0"

func run(sets []string) error {
	n, err := parse(sets)
	if err != nil {
		return err
	}
	command, err := n.Command()
	if err != nil {
		return err
	}
	return syscall.Exec(command[0], command, os.Environ()) // signals are Kafka's own from here on
}

func parse(sets []string) (*kafka.Node, error) {
	n := &kafka.Node{ID: alone}
	var dir string
	for _, set := range sets {
		key, value, ok := strings.Cut(set, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("--set %s: not key=value", set)
		case key == "node.id":
			n.ID = value
		case key == "listeners":
			n.Listeners = value
		case key == "log.dirs":
			dir = value
		case key == "http.listeners":
		default:
			n.Settings = append(n.Settings, set)
		}
	}
	if n.Listeners == "" || dir == "" {
		return nil, errors.New("listeners and log.dirs are to be set")
	}
	n.Among = []string{"1", "2", "3"}
	if n.ID == alone {
		n.Among = []string{alone}
	}
	var err error
	n.Dir, err = substrate.MakeDir(dir)
	return n, err
}
