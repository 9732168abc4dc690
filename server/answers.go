package server

import (
	"sync"
	"sync/atomic"
)

const (
	// answerMemory is the most of records that one answer holds in memory; more is sent
	// from its file.
	answerMemory = 1 << 20
	// chunkBytes is how much is copied at once of what the kernel does not send, and
	// smallChunk how much where there is no memory for that: no more than a connection
	// costs anyway.
	chunkBytes = 256 << 10
	smallChunk = 8 << 10
)

// answers bounds the bytes of records in memory that are on their way to consumers, of
// all connections together. Nobody ever waits for them, so who reads slowly keeps them
// from nobody: records that find no room are sent from their file, and files that the
// kernel does not send go through a small chunk.
type answers struct {
	limit int64
	used  atomic.Int64
}

// hold takes n bytes if they are there.
func (a *answers) hold(n int64) bool {
	if a.used.Add(n) <= a.limit {
		return true
	}
	a.used.Add(-n)
	return false
}

func (a *answers) release(n int64) { a.used.Add(-n) }

var chunks = sync.Pool{New: func() any { b := make([]byte, chunkBytes); return &b }}

// chunk is a buffer to copy through; back returns it.
func (a *answers) chunk() (buf []byte, back func()) {
	if !a.hold(chunkBytes) {
		return make([]byte, smallChunk), func() {}
	}
	b := chunks.Get().(*[]byte)
	return *b, func() {
		chunks.Put(b)
		a.release(chunkBytes)
	}
}
