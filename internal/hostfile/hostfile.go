// Package hostfile reads files of the host that a setting names, such as keys and
// certificates. They are not on the volume, whose rules do not hold for them; nothing here
// writes. No error tells of a content.
package hostfile

import (
	"fmt"
	"io"
	"os"
)

// Read reads a file of at most so many bytes. Errors name it.
func Read(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s: has more than %d bytes", name, most)
	}
	return b, nil
}
