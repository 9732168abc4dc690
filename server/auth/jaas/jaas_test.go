package jaas

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]map[string]string{
		`a.B required;`: {},
		`a.B required username="kaas" password="s p=;'x" ;`:  {"username": "kaas", "password": "s p=;'x"},
		"a.B REQUISITE\n\tuser_alice='it\"s'\n  user_bob=b;": {"user_alice": `it"s`, "user_bob": "b"},
		`a.B optional /* no */ x = y // and no ;` + "\n;":    {"x": "y"},
		`a.B sufficient x="a\"b\\c\n\101\x";`:                {"x": "a\"b\\c\nAx"},
		`a.B required x="";`:                                 {"x": ""},
		`"a.B" required x=ä;`:                                {"x": "ä"},
	} {
		e, err := Parse(line)
		if err != nil || e.Module != "a.B" || !maps.Equal(e.Options, want) {
			t.Errorf("%s: %s %q, %v", line, e.Module, e.Options, err)
		}
	}
}

// Nothing that is wrong with a line has its values told.
func TestErrorsHideValues(t *testing.T) {
	for _, line := range []string{
		"", ";", "a.B", "a.B hunter2", "a.B required", "a.B required password=hunter2", `a.B required password="hunter2`, "a.B required password=hunter2 x;",
		"a.B required hunter2;", "a.B required password==hunter2;", "a.B required password=hunter2; a.C required;", "a.B required =hunter2;", "= required;",
		`a.B required password="hunter2\`, "a.B required /* hunter2", "a.B required password=hunter2;;", "a.B required password=\"hunter2\n\";", "a.B required x='y' hunter2='z",
	} {
		if e, err := Parse(line); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %+v, %v", line, e.Options, err)
		}
	}
}

func TestEntryHidesValues(t *testing.T) {
	e, err := Parse(`a.B required password="hunter2" user_alice="hunter3";`)
	if err != nil || e.Users()["alice"] != "hunter3" || len(e.Users()) != 1 {
		t.Fatal(e.Users(), err)
	}
	if s := fmt.Sprintf("%v %+v %#v %s", e, e, e, e); strings.Contains(s, "hunter") {
		t.Error(s)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`a.B required password="hunter2" user_alice='x\101';`)
	f.Add("a.B required /* */ // \n x=y;")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err == nil && e.Module == "" && !strings.Contains(s, `""`) && !strings.Contains(s, "''") {
			t.Fatalf("%q has no module", s)
		}
	})
}
