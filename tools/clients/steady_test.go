package clients

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// served waits until a listener shows the first certificate of a file.
func served(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: served ADDR FILE")
	}
	want, _ := pem.Decode([]byte(ts.ReadFile(args[1])))
	if want == nil || want.Type != "CERTIFICATE" {
		ts.Fatalf("%s does not begin with a certificate", args[1])
	}
	waits(ts, func() error {
		c, err := tls.Dial("tcp", args[0], &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer c.Close()
		if !bytes.Equal(c.ConnectionState().PeerCertificates[0].Raw, want.Bytes) {
			return errors.New("another certificate is shown")
		}
		return nil
	})
}

// waits tries until it goes well.
func waits(ts *testscript.TestScript, try func() error) {
	for began := time.Now(); ; time.Sleep(untilPause) {
		err := try()
		if err == nil {
			return
		}
		if time.Since(began) > untilTime {
			ts.Fatalf("not within %v: %v", untilTime, err)
		}
	}
}

// progress waits until each of some programs that run steady has had so many more records
// acknowledged, of both of its producers in every way.
func progress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: progress DIR N PROGRAM ...")
	}
	more, err := strconv.Atoi(args[1])
	ts.Check(err)
	dir, programs := ts.MkAbs(args[0]), args[2:]
	before := map[string][]int{}
	for _, name := range programs {
		before[name] = steadyCounts(ts, filepath.Join(dir, name))
	}
	waits(ts, func() error {
		for _, name := range programs {
			now := steadyCounts(ts, filepath.Join(dir, name))
			for i, n := range now {
				if i < len(before[name]) {
					n -= before[name][i]
				}
				if n < more {
					return fmt.Errorf("%s: %v, after %v", name, now, before[name])
				}
			}
			if len(now) == 0 {
				return fmt.Errorf("%s has not begun", name)
			}
		}
		return nil
	})
}

// steadyCounts is what a program has told so far, nil if it is nothing.
func steadyCounts(ts *testscript.TestScript, file string) (out []int) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ts.Check(err)
	if strings.HasPrefix(string(b), "failed") {
		ts.Fatalf("%s: %s", filepath.Base(file), b)
	}
	for _, field := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(field)
		ts.Check(err)
		out = append(out, n)
	}
	return out
}
