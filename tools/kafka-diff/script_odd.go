package main

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// oddScripts take a plain request of a key and put one odd value after the other in the place
// of each of its fields.
var oddScripts = func() (out []script) {
	for key := range int16(kmsg.MaxKey) {
		if kmsg.RequestForKey(key) == nil {
			continue
		}
		out = append(out, script{"odd " + kmsg.NameForKey(key), func(s *side) {
			if len(s.served(key)) > 0 {
				s.create("odd", 1)
			}
			for _, version := range s.served(key) {
				s.odd(key, version)
			}
		}})
	}
	return out
}()

// harmful are the fields that an odd value must not be put into: it would change the broker
// for all that follows, or have it wait.
var harmful = map[string]bool{
	"AddPartitionsToTxn.Transactions=null":   true, // Kafka does not answer, nor the next
	"AlterConfigs.Resources=2 of them":       true,
	"UnregisterBroker.BrokerID=1":            true,
	"Produce.Topics.Partitions.Records=null": true, // Kafka does not answer
	`Metadata.Topics.Topic="no-such"`:        true, // it would be made
}

func (s *side) odd(key, version int16) { // a request that changes nothing for the others
	for path, set := range s.variants(key, version) {
		req := plain(key, version)
		set(valueOf(req))
		if harmful[kmsg.NameForKey(key)+"."+path] {
			continue
		}
		s.ask(path, req)
	}
}

func valueOf(req kmsg.Request) reflect.Value { return reflect.ValueOf(req).Elem() }

// plain is a request with one element in each list.
func plain(key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	fill(reflect.ValueOf(req).Elem(), 0)
	usual(req)
	return req
}

// usual sets what would have every variant of a request wait, or not be answered.
func usual(req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.Acks, r.TimeoutMillis = -1, 1000
		r.Topics[0].Partitions[0].Records = batch(nil, values("x")...)
	case *kmsg.FetchRequest:
		r.MaxWaitMillis = 0
	case *kmsg.OffsetForLeaderEpochRequest:
		r.Topics[0].Partitions[0].LeaderEpoch = 100
	case *kmsg.JoinGroupRequest:
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 6000, 6000
	}
}

func fill(v reflect.Value, depth int) {
	for i := range v.NumField() {
		f := v.Field(i)
		if !v.Type().Field(i).IsExported() || f.Kind() != reflect.Slice || depth > 3 {
			continue
		}
		if e := f.Type().Elem(); e.Kind() == reflect.Struct {
			one := reflect.New(e)
			if d, ok := one.Interface().(interface{ Default() }); ok {
				d.Default()
			}
			fill(one.Elem(), depth+1)
			f.Set(reflect.Append(reflect.MakeSlice(f.Type(), 0, 1), one.Elem()))
		} else if e.Kind() != reflect.Uint8 {
			f.Set(reflect.Append(reflect.MakeSlice(f.Type(), 0, 1), reflect.Zero(e)))
		}
	}
}

// variants yields what changes a plain request: nothing, then each of its fields in turn.
func (s *side) variants(key, version int16) func(yield func(string, func(reflect.Value)) bool) {
	return func(yield func(string, func(reflect.Value)) bool) {
		if !yield("plain", func(reflect.Value) {}) {
			return
		}
		seen := map[string]bool{}
		base := string(plain(key, version).AppendTo(nil))
		walk(reflect.ValueOf(plain(key, version)).Elem(), nil, "", func(index []int, path string, values []any) bool {
			for _, value := range values {
				set := func(v reflect.Value) { f := at(v, index); f.Set(reflect.ValueOf(value).Convert(f.Type())) }
				req := plain(key, version)
				set(reflect.ValueOf(req).Elem())
				if b := string(req.AppendTo(nil)); b == base || seen[b] {
					continue // the version has no such field
				} else {
					seen[b] = true
				}
				if !yield(fmt.Sprintf("%s=%.40s", path, show(value)), set) {
					return false
				}
			}
			return true
		})
	}
}

func show(v any) string {
	switch r := reflect.ValueOf(v); {
	case r.Kind() == reflect.Slice && r.IsNil(), r.Kind() == reflect.Pointer && r.IsNil():
		return "null"
	case r.Kind() == reflect.Pointer:
		return fmt.Sprintf("%q", r.Elem().Interface())
	case r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Struct:
		return fmt.Sprintf("%d of them", r.Len())
	case r.Kind() == reflect.String:
		return fmt.Sprintf("%q", v)
	default:
		return fmt.Sprintf("%v", v)
	}
}

// at is the field that an index leads to, through the first elements of lists.
func at(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		if v.Kind() == reflect.Slice {
			v = v.Index(0)
		}
		v = v.Field(i)
	}
	return v
}

func walk(v reflect.Value, index []int, path string, found func([]int, string, []any) bool) bool {
	for i := range v.NumField() {
		t := v.Type().Field(i)
		if !t.IsExported() || t.Name == "Version" || t.Name == "UnknownTags" {
			continue
		}
		at, name := append(slices.Clone(index), i), strings.TrimPrefix(path+"."+t.Name, ".")
		if values := oddValues(t.Name, v.Field(i)); len(values) > 0 && !found(at, name, values) {
			return false
		}
		if f := v.Field(i); f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct && f.Len() > 0 {
			if !walk(f.Index(0), at, name, found) {
				return false
			}
		}
	}
	return true
}

var oddStrings = []string{"", "odd", "no-such", "bad name!", "..", "Ä", strings.Repeat("x", 300)}

// oddValues are those to be put into a field.
func oddValues(name string, v reflect.Value) []any {
	wait := strings.Contains(name, "Millis") || strings.Contains(name, "Wait")
	if v.Kind() == reflect.Int8 { // and kinds of it
		v = v.Convert(reflect.TypeFor[int8]())
	}
	switch v.Interface().(type) {
	case bool:
		return []any{true, false}
	case int8:
		return []any{int8(-1), int8(0), int8(1), int8(2), int8(3), int8(4), int8(8), int8(16), int8(32), int8(100), int8(-128)}
	case int16:
		return []any{int16(-1), int16(0), int16(1), int16(2), int16(-2), int16(math.MaxInt16), int16(math.MinInt16)}
	case int32:
		if wait {
			return []any{int32(-1), int32(0), int32(1), int32(math.MinInt32)}
		}
		return []any{int32(-1), int32(0), int32(1), int32(2), int32(-2), int32(math.MaxInt32), int32(math.MinInt32)}
	case int64:
		return []any{int64(-1), int64(0), int64(1), int64(-2), int64(-3), int64(-4), int64(-5), int64(-6), int64(1 << 41), int64(math.MaxInt64), int64(math.MinInt64)}
	case string:
		return oddTexts()
	case *string:
		out := []any{(*string)(nil)}
		for _, s := range oddStrings {
			out = append(out, &s)
		}
		return out
	case [16]byte:
		return []any{[16]byte{}, forged(1)}
	case []byte:
		return []any{[]byte(nil), []byte{}, []byte{1, 2, 3}, make([]byte, 100)}
	}
	if v.Kind() != reflect.Slice {
		return nil
	}
	out := []any{reflect.Zero(v.Type()).Interface(), reflect.MakeSlice(v.Type(), 0, 0).Interface()}
	if v.Len() > 0 {
		out = append(out, reflect.Append(reflect.Append(reflect.MakeSlice(v.Type(), 0, 2), v.Index(0)), v.Index(0)).Interface())
	}
	if v.Type().Elem().Kind() == reflect.String {
		for _, s := range oddStrings {
			out = append(out, []string{s})
		}
	}
	if v.Type().Elem().Kind() == reflect.Int32 {
		for _, n := range []int32{-1, 1, math.MaxInt32} {
			out = append(out, []int32{n})
		}
	}
	return out
}

func oddTexts() (out []any) {
	for _, s := range oddStrings {
		out = append(out, s)
	}
	return out
}
