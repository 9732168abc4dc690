package server

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// answerTimes is how many times what a request takes its answer does while it is made,
	// where it has a part for each of the request's; fetchTimes what a fetch does while it waits.
	answerTimes = 3
	fetchTimes  = 6
	// tagBytes is about what a map has for an entry.
	tagBytes = 80
)

// weighs is about what a decoded request takes in memory until it is answered. rest is what was
// read of it, which its bytes lie in.
func weighs(a *api, msg kmsg.Request, rest int) int64 {
	n := footprint(reflect.ValueOf(msg))
	switch {
	case a.key == kmsg.Fetch:
		n *= fetchTimes
	case !a.wide:
		n *= answerTimes
	}
	return int64(rest) + n
}

// footprint is about what lies behind a value, but for bytes.
func footprint(v reflect.Value) (n int64) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			n = int64(v.Type().Elem().Size()) + footprint(v.Elem())
		}
	case reflect.String:
		n = int64(v.Len())
	case reflect.Map:
		n = int64(v.Len()) * tagBytes
	case reflect.Struct:
		for i := range v.NumField() {
			n += footprint(v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return 0
		}
		n = int64(v.Cap()) * int64(v.Type().Elem().Size())
		switch v.Type().Elem().Kind() {
		case reflect.Pointer, reflect.String, reflect.Struct, reflect.Slice:
			for i := range v.Len() {
				n += footprint(v.Index(i))
			}
		}
	}
	return n
}
