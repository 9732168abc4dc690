// Package pattern has the regular expressions that clients send. Whoever sends one chooses
// what reading, compiling and matching it takes, which can be a billion times its length; here
// all of that is bounded before it is done.
//
// [Check] judges expressions without compiling them, [Compile] makes one that matches whole
// texts only.
package pattern

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
)

// What an expression may be, or several of one request together.
const (
	mostBytes = 64 << 10
	mostSteps = 20_000 // of the machine that it is compiled to
	// mostOpen is how many of them there may be at which a text can be all at once, where
	// what matches more than one character, or any number of times, counts for openCost.
	// With 10,000 topics whose names have 35 characters the worst that is left takes 0.1 to
	// 0.3 s, and one of many names, or like those that people write, some milliseconds.
	mostOpen = 400
	openCost = 8
)

// What parts of an expression may come to while it is read, in steps.
const (
	classSteps = 1500 // \pL is more than a thousand characters and ranges
	rangeSteps = 5000 // in (?i)[b-\x{1e942}] each character is looked at
)

var errLarge = errors.New("it is too large")

// Check tells what is wrong with expressions, which together are held to the bounds of one.
func Check(exprs ...string) error {
	size, sum, all := 0, 0, 0
	for _, e := range exprs {
		size += len(e)
		if sum += reading(e); size > mostBytes || sum > mostSteps {
			return errLarge
		}
		x, err := syntax.Parse(e, syntax.Perl)
		if err != nil {
			return err
		}
		open, _ := places(x, false)
		if sum, all = sum+steps(x), all+open; sum > mostSteps || all > mostOpen {
			return errLarge
		}
	}
	return nil
}

// Compile makes an expression match whole texts only. It is read as it stands first:
// anchors would make a whole of some that are none, such as "a)(b", and take the end
// from some that have none, such as `\Qa`.
func Compile(expr string) (*regexp.Regexp, error) {
	if err := Check(expr); err != nil {
		return nil, err
	}
	x, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + x.String() + `)\z`)
}

// reading is what it takes to read an expression besides its length.
func reading(expr string) int {
	n := classSteps * (strings.Count(expr, `\p`) + strings.Count(expr, `\P`))
	if !strings.Contains(expr, "(?") {
		return n
	}
	for rest := expr; ; {
		_, after, found := strings.Cut(rest, "-")
		if !found {
			return n
		}
		if rest = after; len(rest) > 0 && rest[0] >= 0x80 || len(rest) > 1 && rest[0] == '\\' && strings.IndexByte("x01234567", rest[1]) >= 0 {
			n += rangeSteps
		}
	}
}

// steps is about how many an expression is compiled to, before it is.
func steps(x *syntax.Regexp) int {
	n := 1 + len(x.Rune)
	for _, sub := range x.Sub {
		n += steps(sub)
	}
	if x.Op == syntax.OpRepeat {
		n *= max(x.Min, x.Max, 1) + 1
	}
	return n
}

// places is what the places of an expression cost at which a name can be all at once. As long
// as it is certain how much of the name is behind, it can be at one only; where it is not it
// is open what follows, too.
func places(x *syntax.Regexp, open bool) (cost int, opens bool) {
	switch x.Op {
	case syntax.OpLiteral:
		if open {
			cost = len(x.Rune)
		}
		return cost, open
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		if open {
			cost = openCost
		}
		return cost, open
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range x.Sub {
			n, o := places(sub, open)
			cost, open = cost+n, o
		}
		return cost, open
	case syntax.OpAlternate:
		for _, sub := range x.Sub {
			n, _ := places(sub, open)
			cost += n
		}
		return cost, true
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		if n, o := places(x.Sub[0], open); x.Op == syntax.OpRepeat && x.Min == x.Max && o == open {
			return n * x.Min, open
		}
		cost, _ = places(x.Sub[0], true)
		cost = max(cost, openCost)
		if x.Op == syntax.OpRepeat {
			cost *= max(x.Min, x.Max, 1)
		}
		return cost, true
	}
	return 0, open
}
