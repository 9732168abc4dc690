package consumer

import "testing"

// An expression matches whole names, whatever it leaves open.
func TestCompile(t *testing.T) {
	for _, tc := range []struct {
		expr, name string
		want       bool
	}{
		{`\Qa.b`, "a.b", true}, {`\Qa.b`, "a.bc", false}, {`a|ab`, "ab", true}, {`(?i)a`, "A", true}, {`(?i)a`, "AB", false},
		{`(?m)^a$`, "a", true}, {`a.*`, "abc", true}, {`(?U)a+`, "aaa", true},
	} {
		re, err := compile(tc.expr)
		if err != nil || re.MatchString(tc.name) != tc.want {
			t.Errorf("%s matches %s: want %v, %v", tc.expr, tc.name, tc.want, err)
		}
	}
	for _, expr := range []string{"a)(b", "a(b", `a\`} {
		if _, err := compile(expr); err == nil {
			t.Errorf("%s is none", expr)
		}
	}
}
