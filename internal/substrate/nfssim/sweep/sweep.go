// Package sweep is what the fault sweeps of several packages share: which seeds they run,
// how a seed that fails is named, and what a seed draws of a simulated volume.
//
// A sweep is a function of a seed alone, so that a failure can be run again:
//
//	KAAS_SIM_SEEDS   how many seeds, instead of the test's own number
//	KAAS_SIM_SEED    the first one
package sweep

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"kaas.dev/kaas/internal/substrate/nfssim"
)

// Seeds is how many seeds a sweep runs: KAAS_SIM_SEEDS, else def.
func Seeds(t *testing.T, def int) int {
	t.Helper()
	if s := os.Getenv("KAAS_SIM_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("KAAS_SIM_SEEDS: %v", err)
		}
		return n
	}
	if testing.Short() {
		return min(def, 20)
	}
	return def
}

// Run runs a sweep over its seeds. It ends the test at the first that fails, and tells how
// to run that one again.
func Run(t *testing.T, def int, sweep func(seed int64) error) {
	t.Helper()
	first := int64(1)
	if s := os.Getenv("KAAS_SIM_SEED"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatalf("KAAS_SIM_SEED: %v", err)
		}
		first = n
	}
	for seed := first; seed < first+int64(Seeds(t, def)); seed++ {
		if err := sweep(seed); err != nil {
			t.Fatalf("seed %d (replay: KAAS_SIM_SEED=%d KAAS_SIM_SEEDS=1): %v", seed, seed, err)
		}
	}
}

// Catches runs a sweep with a rule taken away, which must fail at one of the first seeds.
func Catches(t *testing.T, most int64, sweep func(seed int64) error) {
	t.Helper()
	for seed := int64(1); seed <= most; seed++ {
		if err := sweep(seed); err != nil {
			t.Logf("caught at seed %d: %v", seed, strings.SplitN(err.Error(), "\n", 2)[0])
			return
		}
	}
	t.Fatalf("%d seeds pass without this rule", most)
}

// Config draws a volume: a local disk or one that is shared, how stale its listings may
// be, how many replies get lost.
func Config(seed int64, rng *rand.Rand) nfssim.Config {
	cfg := nfssim.Config{Seed: seed, TraceLen: 400, Local: rng.IntN(4) == 0, Delegations: rng.IntN(2) == 0}
	if !cfg.Local {
		cfg.StaleList = []float64{0, 0.1, 0.5}[rng.IntN(3)]
		cfg.Late = []float64{0, 0.5}[rng.IntN(2)]
		cfg.RestartStale = rng.IntN(2) == 0
	}
	cfg.LostReply = []float64{0, 0.02, 0.1}[rng.IntN(3)]
	return cfg
}

// Faults has calls fail at a rate, some of them after they were made.
func Faults(seed int64, rate float64) func(nfssim.Op) error {
	rng := rand.New(rand.NewPCG(uint64(seed), 2))
	return func(nfssim.Op) error {
		if rng.Float64() >= rate {
			return nil
		}
		e := []error{syscall.EIO, syscall.ENOSPC}[rng.IntN(2)]
		if rng.IntN(2) == 0 {
			return nfssim.Applied(e)
		}
		return e
	}
}

// IDs makes names in place of random ones.
func IDs(prefix string) func() string {
	var mu sync.Mutex
	n := 0
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprintf("%s.%d", prefix, n)
	}
}
