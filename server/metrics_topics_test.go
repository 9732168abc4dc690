package server

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

// The series of a topic that is gone are dropped, whoever deleted it.
func TestSeriesOfDeletedTopicsGo(t *testing.T) {
	m := newMetrics()
	figures := func() string {
		rec := httptest.NewRecorder()
		httpHandler(m, func() error { return nil }).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		b, err := io.ReadAll(rec.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	m.produced("kept", 1, 10)
	m.produced("gone", 1, 10)
	m.fetched("gone", 10)
	if s := figures(); strings.Count(s, `topic="gone"`) != 3 {
		t.Errorf("before the topics are known:\n%s", s)
	}
	m.watchTopics(func(topic string) bool { return topic == "kept" })
	for range 2 {
		if s := figures(); strings.Contains(s, `topic="gone"`) || strings.Count(s, `topic="kept"`) != 2 {
			t.Errorf("afterwards:\n%s", s)
		}
	}
	m.watchTopics(func(string) bool { return true })
	if s := figures(); strings.Contains(s, `topic="gone"`) {
		t.Error("the series are hidden, not dropped")
	}
}
