package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
)

// answerFetch writes the answer's head, whose sizes count the records, and the records
// after it. What cannot be sent any more then ends the connection: the client never
// takes other bytes for records.
func (c *conn) answerFetch(correlationID int32, a *fetchAnswer) error {
	defer a.release()
	buf := buffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= keepBuffer {
			buffers.Put(buf)
		}
	}()
	head := binary.BigEndian.AppendUint32(append((*buf)[:0], 0, 0, 0, 0), uint32(correlationID))
	if a.Version >= 12 {
		head = append(head, 0)
	}
	var parts []payload
	*buf, parts = a.encode(head)
	a.Topics = nil
	size := len(*buf)
	for i := range parts {
		size += parts[i].size()
	}
	binary.BigEndian.PutUint32(*buf, uint32(size-4))
	c.s.metrics.bytesOut.Add(float64(size))
	at := 0
	for i := range parts {
		p := &parts[i]
		if err := c.send((*buf)[at:p.at]); err != nil {
			return err
		}
		at = p.at
		if err := c.sendPayload(p); err != nil {
			return err
		}
	}
	return c.send((*buf)[at:])
}

func (c *conn) sendPayload(p *payload) error {
	if p.file == nil {
		return c.send(p.mem)
	}
	err := c.sendRegion(p.file)
	if err != nil && !isPeers(err) {
		p.file.Distrust()
		c.s.log.Error("records cannot be sent from their file", "region", p.file.String(), "err", err)
		return fmt.Errorf("records of a fetch: %s: %w", p.file, err)
	}
	return err
}

// isPeers reports errors that a socket gives, not a file.
func isPeers(err error) bool {
	if errors.As(err, new(peersError)) {
		return true
	}
	for _, e := range []error{net.ErrClosed, os.ErrDeadlineExceeded, syscall.EPIPE, syscall.ECONNRESET, syscall.ETIMEDOUT, syscall.ENOTCONN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// sendRegion has the kernel move the records, where it can. Beside copying them through
// memory it costs as much processor time with one consumer, and a third less with four
// (BenchmarkFetch).
func (c *conn) sendRegion(r *partition.Region) error {
	file, pos, ok := r.File()
	tcp, plain := c.nc.(*net.TCPConn)
	if !ok || !plain {
		return c.copyRegion(r, 0)
	}
	socket, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	for at := int64(0); at < r.Size(); {
		if err := c.nc.SetWriteDeadline(time.Now().Add(pieceTimeout)); err != nil {
			return err
		}
		n, err := substrate.SendTo(socket, file, pos+at, min(r.Size()-at, writePiece))
		at += n
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EOPNOTSUPP) {
			return c.copyRegion(r, at) // the volume's file system cannot
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyRegion sends the records from byte at on through memory, a chunk at a time.
func (c *conn) copyRegion(r *partition.Region, at int64) error {
	for at < r.Size() {
		n, err := c.copyChunk(r, at)
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

func (c *conn) copyChunk(r *partition.Region, at int64) (int64, error) {
	buf, back := c.s.answers.chunk()
	defer back()
	b := buf[:min(int64(len(buf)), r.Size()-at)]
	if err := r.ReadAt(b, at); err != nil {
		return 0, err
	}
	if err := c.send(b); err != nil {
		return 0, peersError{err}
	}
	return int64(len(b)), nil
}

// peersError is one of writing to a client, of which TLS has kinds of its own.
type peersError struct{ error }

func (e peersError) Unwrap() error { return e.error }
