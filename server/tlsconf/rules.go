package tlsconf

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Rules make a principal's name of a certificate's subject: ssl.principal.mapping.rules.
// The first one that fits the whole subject counts.
//
// Patterns are Go's: they take no time that grows with more than the subject's length, and
// so have neither lookaround nor back references, and no class within a class: what Java reads as
// one is refused. A dot is any character but \n, where Java leaves out \r and three more, too, and
// \s has no \x0B. All else is as Java has it, which also replaces every match there is in the
// subject.
type Rules struct{ list []rule }

// rule is one of them; DEFAULT has no pattern.
type rule struct {
	first *regexp.Regexp // the pattern
	whole *regexp.Regexp // of all there is
	from  *regexp.Regexp // the next match behind the first character, which ^ does not take for the start
	repl  []piece
	turn  func(string) string // to upper or lower case, or nil
	text  string
}

// piece of a replacement: a group, or a text.
type piece struct {
	group int // -1: none
	text  string
}

// errNoRule is what a subject gets that no rule fits.
var errNoRule = errors.New("no rule of ssl.principal.mapping.rules fits")

const rulePattern = `(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(?:.*?)`

var (
	ruleSplitter = regexp.MustCompile(`\s*(` + rulePattern + `)\s*(?:,\s*|$)`)
	ruleParser   = regexp.MustCompile(`\A(?:` + rulePattern + `)`)
)

// ParseRules reads the setting.
func ParseRules(s string) (*Rules, error) {
	rs := &Rules{}
	for _, m := range ruleSplitter.FindAllStringSubmatch(strings.TrimSpace(s), -1) {
		text := m[1]
		p := ruleParser.FindStringSubmatchIndex(text)
		if p == nil || p[1] != len(text) {
			return nil, fmt.Errorf("%q is neither DEFAULT nor RULE:pattern/replacement/ with L, U or nothing behind it", text)
		}
		switch {
		case text == "": // as in Kafka, nothing
		case p[2] >= 0:
			rs.list = append(rs.list, rule{text: text})
		default:
			r, err := newRule(text, text[p[4]:p[5]], text[p[6]:p[7]], text[p[8]:p[9]])
			if err != nil {
				return nil, err
			}
			rs.list = append(rs.list, r)
		}
	}
	if len(rs.list) == 0 {
		return nil, errors.New("has no rule")
	}
	return rs, nil
}

func newRule(text, pattern, replacement, turn string) (r rule, err error) {
	r.text = text
	if r.first, err = regexp.Compile(pattern); err != nil {
		return r, fmt.Errorf("%q: %w (neither lookaround nor back references are there)", text, err)
	}
	if what := withinClass(pattern); what != "" {
		return r, fmt.Errorf("%q: %s within [] means a set of sets in Java, which is not there: write \\%c for the character", text, what, what[0])
	}
	if r.whole, err = regexp.Compile(`\A(?:` + pattern + `)\z`); err != nil {
		return r, fmt.Errorf("%q: \\Q has no \\E", text)
	}
	r.from = regexp.MustCompile(`\A(?s:.)(?s:.*?)(` + pattern + `)`)
	switch turn {
	case "L":
		r.turn = func(s string) string { return cases.Lower(language.English).String(s) }
	case "U":
		r.turn = func(s string) string { return cases.Upper(language.English).String(s) }
	}
	r.repl, err = pieces(replacement, r.first)
	if err != nil {
		err = fmt.Errorf("%q: %w", text, err)
	}
	return r, err
}

// withinClass is what a pattern, which compiles within others, has within brackets that Java takes for another
// class, to be joined or intersected, and Go for characters; nothing if there is none.
func withinClass(pattern string) string {
	for i, first := 0, -1; i < len(pattern); i++ { // first is where a class may have a ] of its own
		at := pattern[i:]
		switch {
		case strings.HasPrefix(at, `\Q`) && first < 0: // text up to \E
			i += strings.Index(at, `\E`) + 1
		case at[0] == '\\':
			i++
		case first < 0 && at[0] == '[':
			if first = i + 1; strings.HasPrefix(at, "[^") {
				first, i = i+2, i+1
			}
		case first < 0:
		case at[0] == '[', strings.HasPrefix(at, "&&"):
			return at[:1+strings.Count(at[:1], "&")]
		case at[0] == ']' && i > first:
			first = -1
		}
	}
	return ""
}

// subjectMax bounds what replacing takes, which grows with the square of it.
const subjectMax = 4096

// Apply is the principal's name for a subject.
func (rs *Rules) Apply(subject string) (string, error) {
	if len(subject) > subjectMax {
		return "", fmt.Errorf("a subject of %d bytes is longer than %d", len(subject), subjectMax)
	}
	for i := range rs.list {
		r := &rs.list[i]
		if r.first != nil && !r.whole.MatchString(subject) {
			continue
		}
		name := r.name(subject)
		if name == "" { // Kafka lets a user in whose name is empty
			return "", fmt.Errorf("rule %s makes nothing of the subject %q", r.text, subject)
		}
		return name, nil
	}
	return "", fmt.Errorf("%w the subject %q", errNoRule, subject)
}

func (r *rule) name(subject string) string {
	if r.first == nil {
		return subject
	}
	name := r.replace(subject)
	if r.turn != nil {
		name = r.turn(name)
	}
	return name
}

// replace puts the replacement in the place of each match. Where one ends the next may
// begin, and be empty: .* matches twice, as it does in Java.
func (r *rule) replace(s string) string {
	var out strings.Builder
	for at := 0; at <= len(s); {
		m := r.next(s, at)
		if m == nil {
			out.WriteString(s[at:])
			break
		}
		out.WriteString(s[at:m[0]])
		r.expand(&out, s, m)
		if at = m[1]; m[0] == m[1] { // an empty one: go on behind the next character
			_, n := utf8.DecodeRuneInString(s[at:])
			out.WriteString(s[at : at+n])
			at += max(1, n) // behind the end there is nothing more
		}
	}
	return out.String()
}

// next is where a match begins and ends that begins at or after at, and where its groups do.
func (r *rule) next(s string, at int) []int {
	if at == 0 {
		return r.first.FindStringSubmatchIndex(s)
	}
	_, n := utf8.DecodeLastRuneInString(s[:at])
	before := at - n
	m := r.from.FindStringSubmatchIndex(s[before:])
	if m == nil {
		return nil
	}
	for i := range m {
		if m[i] >= 0 {
			m[i] += before
		}
	}
	return m[2:] // the pattern is the first group
}

func (r *rule) expand(out *strings.Builder, s string, m []int) {
	for _, p := range r.repl {
		if p.group < 0 {
			out.WriteString(p.text)
		} else if m[2*p.group] >= 0 {
			out.WriteString(s[m[2*p.group]:m[2*p.group+1]])
		}
	}
}

// pieces takes a replacement apart. $1 is a group, as many digits as there are groups for;
// a number without a group stands for itself if there are groups at all. ${name} is a
// group, too, and a backslash takes the meaning from what follows.
func pieces(s string, re *regexp.Regexp) (out []piece, err error) {
	text := []byte{}
	flush := func() {
		if len(text) > 0 {
			out = append(out, piece{-1, string(text)})
			text = text[:0]
		}
	}
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 == len(s):
			return nil, errors.New("the replacement ends with a backslash")
		case s[i] == '\\':
			i++
			text = append(text, s[i])
		case s[i] != '$':
			text = append(text, s[i])
		default:
			group, n := groupRef(s[i+1:], re)
			if n == 0 {
				return nil, fmt.Errorf("the replacement has a $ that names no group: %q", s[i:])
			}
			if group < 0 { // a number that is no group
				text = append(text, s[i:i+1+n]...)
			} else {
				flush()
				out = append(out, piece{group, ""})
			}
			i += n
		}
	}
	flush()
	return out, nil
}

// groupRef reads what follows a $: the group and how many bytes name it. The group is -1
// for a number to be taken as it stands.
func groupRef(s string, re *regexp.Regexp) (group, n int) {
	if name, _, ok := strings.Cut(s, "}"); ok && strings.HasPrefix(name, "{") {
		if group = re.SubexpIndex(name[1:]); group < 0 {
			return 0, 0
		}
		return group, len(name) + 1
	}
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, 0
	}
	group = int(s[0] - '0')
	if group > re.NumSubexp() {
		if re.NumSubexp() == 0 {
			return 0, 0
		}
		return -1, 1
	}
	for n = 1; n < len(s) && s[n] >= '0' && s[n] <= '9'; n++ {
		next := group*10 + int(s[n]-'0')
		if next > re.NumSubexp() {
			break
		}
		group = next
	}
	return group, n
}
