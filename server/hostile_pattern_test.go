package server

import (
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections/txns"
)

// A pattern of a few thousand bytes that would be compiled to millions of steps costs nothing,
// and one that is fit is compiled for nobody who may not see what it matches.
func TestHostilePatternOfTransactions(t *testing.T) {
	f := &fakeTxns{}
	c, _ := dialTxns(t, f)
	f.txns = []*txns.Txn{{ID: "orders"}}
	list := func(pattern string) (code int16, listed, alloc int) {
		req := kmsg.NewPtrListTransactionsRequest()
		req.Version, req.TransactionalIDPattern = 2, &pattern
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		resp := c.ask(req).(*kmsg.ListTransactionsResponse)
		runtime.ReadMemStats(&after)
		return resp.ErrorCode, len(resp.TransactionStates), int(after.TotalAlloc-before.TotalAlloc) >> 20
	}
	for _, p := range []string{strings.Repeat("x{1000}", 3000), strings.Repeat(`\pL`, 20_000), "(" + strings.Repeat("a?", 3000) + "){900}"} {
		if code, _, alloc := list(p); code != kerr.InvalidRegularExpression.Code || alloc > 20 {
			t.Errorf("%.20s…: error %d, %d MiB", p, code, alloc)
		}
	}
	if code, n, _ := list(strings.Repeat("x{1000}|", 15) + "o.*s"); code != 0 || n != 1 {
		t.Errorf("a large one: error %d, %d listed", code, n)
	}
	if code, n, _ := list("o.*s|"); code != 0 || n != 1 {
		t.Errorf("one that matches nothing, too: error %d, %d listed", code, n)
	}
}
