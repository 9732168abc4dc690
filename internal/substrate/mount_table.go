package substrate

import (
	"fmt"
	"slices"
	"strings"
)

// mountLine is a line of the kernel's table (proc(5)):
//
//	36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue
type mountLine struct {
	id, parent string
	Mount
}

// findMount returns the mount that an absolute path without symbolic links is on. It
// goes down from the root as the kernel does: what is mounted over another mount hides
// all that is mounted below that one.
func findMount(table, dir string) (Mount, error) {
	var lines []mountLine
	for text := range strings.Lines(table) {
		l, err := parseMountLine(strings.TrimSuffix(text, "\n"))
		if err != nil {
			return Mount{}, err
		}
		if inside(dir, l.Point) {
			lines = append(lines, l)
		}
	}
	at := rootMount(lines)
	if at == nil {
		return Mount{}, fmt.Errorf("no mount in %s holds %s", mountTable, dir)
	}
	for range lines { // each step is to another line, so that a table that turns in a circle ends
		next := nextMount(lines, at)
		if next == nil {
			break
		}
		at = next
	}
	return at.Mount, nil
}

// rootMount is the line that hangs below no other one.
func rootMount(lines []mountLine) (root *mountLine) {
	for i, l := range lines {
		below := slices.ContainsFunc(lines, func(o mountLine) bool { return o.id == l.parent && o.id != l.id })
		if !below && (root == nil || len(l.Point) > len(root.Point)) {
			root = &lines[i]
		}
	}
	return root
}

// nextMount is what a walk to the directory meets first on the mount at: the shortest
// point below it.
func nextMount(lines []mountLine, at *mountLine) (next *mountLine) {
	for i, l := range lines {
		if l.parent == at.id && l.id != at.id && (next == nil || len(l.Point) < len(next.Point)) {
			next = &lines[i]
		}
	}
	return next
}

// inside reports whether dir is point or below it.
func inside(dir, point string) bool {
	rest, ok := strings.CutPrefix(dir, strings.TrimSuffix(point, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

func parseMountLine(text string) (mountLine, error) {
	mount, fs, ok := strings.Cut(text, " - ")
	a, b := strings.Split(mount, " "), strings.Split(fs, " ")
	if !ok || len(a) < 6 || len(b) < 2 {
		return mountLine{}, fmt.Errorf("%s: line %q is not understood", mountTable, text)
	}
	l := mountLine{id: a[0], parent: a[1], Mount: Mount{Root: unescape(a[3]), Point: unescape(a[4]), Type: b[0], Source: unescape(b[1])}}
	for _, o := range append(strings.Split(a[5], ","), strings.Split(b[len(b)-1], ",")...) {
		if o = unescape(o); o != "" && !slices.Contains(l.Options, o) {
			l.Options = append(l.Options, o)
		}
	}
	return l, nil
}

// unescape turns \040 and its like, which stand for blanks and backslashes, into bytes.
func unescape(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		if c, ok := octal(s); ok {
			out.WriteByte(c)
			s = s[4:]
			continue
		}
		out.WriteByte(s[0])
		s = s[1:]
	}
	return out.String()
}

func octal(s string) (c byte, ok bool) {
	if len(s) < 4 || s[0] != '\\' {
		return 0, false
	}
	n := 0
	for _, d := range s[1:4] {
		if d < '0' || d > '7' {
			return 0, false
		}
		n = n<<3 | int(d-'0')
	}
	return byte(n), n < 256
}
