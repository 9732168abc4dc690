// Package image makes container images of static programs, without a builder.
//
// An image is an archive as Docker saves it, which containerd imports: manifest.json, a
// configuration, and one layer. The layer holds the programs in / and an empty /tmp, owned by
// root; the first program is the entrypoint. Equal programs make an equal archive.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// Image is what goes into one.
type Image struct {
	Name     string   // such as kaas:1, which is docker.io/library/kaas:1
	Programs []string // paths here; each keeps its last element
	Command  []string // instead of the first program alone
	User     string   // such as 65532:65532
}

type object = map[string]any

// Write writes the archive.
func (i *Image) Write(w io.Writer) error {
	if len(i.Programs) == 0 {
		return errors.New("an image needs a program")
	}
	layer, err := i.layer()
	if err != nil {
		return err
	}
	command := i.Command
	if len(command) == 0 {
		command = []string{"/" + filepath.Base(i.Programs[0])}
	}
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": object{"Entrypoint": command, "User": i.User, "Env": []string{"PATH=/"}, "WorkingDir": "/"},
		"rootfs": object{"type": "layers", "diff_ids": []string{"sha256:" + sum(layer)}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]object{{
		"Config": sum(config) + ".json", "RepoTags": []string{Reference(i.Name)}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for _, f := range []struct {
		name string
		data []byte
	}{{"manifest.json", manifest}, {sum(config) + ".json", config}, {"layer.tar", layer}} {
		if err := add(out, f.name, 0o644, f.data); err != nil {
			return err
		}
	}
	return out.Close()
}

// Reference is the whole name of an image, as the kubelet asks for it.
func Reference(name string) string {
	if !strings.Contains(path.Base(name), ":") {
		name += ":latest"
	}
	host, _, deep := strings.Cut(name, "/")
	switch {
	case !deep:
		return "docker.io/library/" + name
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		return "docker.io/" + name
	}
	return name
}

func (i *Image) layer() ([]byte, error) {
	b := &bytes.Buffer{}
	w := tar.NewWriter(b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return nil, err
	}
	for _, name := range i.Programs {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := add(w, filepath.Base(name), 0o755, data); err != nil {
			return nil, err
		}
	}
	err := w.Close() // which writes too
	return b.Bytes(), err
}

func add(w *tar.Writer, name string, mode int64, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
