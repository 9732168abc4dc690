package projections

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Java trims values before it reads them; so do we.
func trim(s string) string { return strings.TrimSpace(s) }

func integer(bits int, least, most int64) func(string) error {
	return func(s string) error {
		n, err := parseInt(s, bits)
		switch {
		case err != nil:
			return err
		case n < least:
			return fmt.Errorf("must be at least %d", least)
		case n > most:
			return fmt.Errorf("must be at most %d", most)
		}
		return nil
	}
}

func long(least int64) func(string) error { return integer(64, least, math.MaxInt64) }
func int32s(least int64) func(string) error {
	return integer(32, least, math.MaxInt32)
}

func ratio(s string) error {
	f, err := strconv.ParseFloat(trim(s), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > 1 {
		return errors.New("must be a number from 0 to 1")
	}
	return nil
}

func boolean(s string) error {
	if s = strings.ToLower(trim(s)); s != "true" && s != "false" {
		return errors.New("must be true or false")
	}
	return nil
}

// unsupported is a boolean that may only be false.
func unsupported(why string) func(string) error {
	return func(s string) error {
		if err := boolean(s); err != nil {
			return err
		}
		if strings.EqualFold(trim(s), "true") {
			return errors.New(why)
		}
		return nil
	}
}

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, trim(s)) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return nil
	}
}

// someOf accepts a list of the words, each at most once; the empty list too.
func someOf(words ...string) func(string) error {
	return func(s string) error {
		seen := map[string]bool{}
		for _, w := range list(s) {
			if !slices.Contains(words, w) {
				return fmt.Errorf("must be a list of %s", strings.Join(words, ", "))
			}
			if seen[w] {
				return fmt.Errorf("names %s twice", w)
			}
			seen[w] = true
		}
		return nil
	}
}

func list(s string) []string {
	if trim(s) == "" {
		return nil
	}
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = trim(parts[i])
	}
	return parts
}

// throttled accepts "*", or partition:broker pairs.
func throttled(s string) error {
	if trim(s) == "*" {
		return nil
	}
	for _, pair := range list(s) {
		p, b, ok := strings.Cut(pair, ":")
		_, err1 := strconv.ParseUint(p, 10, 31)
		_, err2 := strconv.ParseUint(b, 10, 31)
		if !ok || err1 != nil || err2 != nil {
			return errors.New("must be * or a list of PARTITION:BROKER")
		}
	}
	return nil
}

// gzipLevel accepts -1, the library's own choice, or 1 to 9.
func gzipLevel(s string) error {
	n, err := parseInt(s, 32)
	if err == nil && (n < -1 || n == 0 || n > 9) {
		err = errors.New("must be -1 or from 1 to 9")
	}
	return err
}
