package pattern

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// An expression matches whole texts, whatever it leaves open.
func TestCompile(t *testing.T) {
	for _, tc := range []struct {
		expr, name string
		want       bool
	}{
		{`\Qa.b`, "a.b", true}, {`\Qa.b`, "a.bc", false}, {`a|ab`, "ab", true}, {`(?i)a`, "A", true}, {`(?i)a`, "AB", false},
		{`(?m)^a$`, "a", true}, {`a.*`, "abc", true}, {`(?U)a+`, "aaa", true}, {`(?i)[\p{Greek}a-\x{ff}-]+`, "Ω-é", true},
	} {
		re, err := Compile(tc.expr)
		if err != nil || re.MatchString(tc.name) != tc.want {
			t.Errorf("%s matches %s: want %v, %v", tc.expr, tc.name, tc.want, err)
		}
	}
	for _, expr := range []string{"a)(b", "a(b", `a\`} {
		if _, err := Compile(expr); err == nil {
			t.Errorf("%s is none", expr)
		}
	}
}

// What would take long, or much, is refused without being done, be it compiled or only read.
func TestHostile(t *testing.T) {
	for what, exprs := range map[string][]string{
		"long":                {strings.Repeat("x", 1<<20)},
		"many when compiled":  {"(" + strings.Repeat("a?", 3000) + "){900}"},
		"nested":              {"((a{30}b?){30}c?){1000}"},
		"classes":             {strings.Repeat(`\pL`, 20_000)},
		"classes in a class":  {"[" + strings.Repeat(`\pL`, 20_000) + "]"},
		"classes to be none":  {"[" + strings.Repeat(`\PL`, 20_000) + "]"},
		"any case":            {"(?i)" + strings.Repeat(`[B-\x{1e942}]`, 4000)},
		"any case, in octal":  {"(?i)" + strings.Repeat(`[\1-\777]`, 7000)},
		"any case, in itself": {"(?s-U:(?i)" + strings.Repeat("[B-\U0001e942]", 4000) + ")"},
		"several":             {strings.Repeat("x{1000}", 19), strings.Repeat("x{1000}", 19)},
		"several, long":       {strings.Repeat("x|", 20_000), strings.Repeat("x|", 20_000)},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Check(exprs...)
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || took > 20 {
			t.Errorf("%s: %v, %d MiB", what, err, took)
		}
	}
}

// What people write is taken, with many names in it, too; what makes looking for it slow is not.
func TestPatternsAreBounded(t *testing.T) {
	var many []string
	for i := range 500 {
		many = append(many, fmt.Sprintf("team-%d.orders.v%d", i, i%7))
	}
	for _, expr := range []string{
		".*", `orders\.(eu|us|apac)\..*-v[0-9]+`, `^(?:prod|test)-.*(orders|payments|invoices|refunds|shipments)(-dlq|-retry-[0-9]{1,3})?$`,
		strings.Join(many, "|"), "(" + strings.Join(many, "|") + ")(-dlq)?", `[a-z0-9._-]{1,40}`, `(?i)mirror\..*\.heartbeats`, `logs-[0-9]{4}-[0-9]{2}(-[a-z]{8})?`,
	} {
		if _, err := Compile(expr); err != nil {
			t.Errorf("%.60s: %v", expr, err)
		}
	}
	for _, expr := range []string{`(?:[^x]?){1000}(?:[^x]?){1000}(?:[^x]?){800}x`, `(?:[^x]?){100}x`, strings.Repeat("[^x]?", 100) + "x", `(?:a?){500}b`, `.*x{500}`, `(?:[^x]?|y){200}`, `(.{1,300}x|y)*`} {
		if _, err := Compile(expr); err == nil {
			t.Errorf("%.60s is taken", expr)
		}
	}
}
