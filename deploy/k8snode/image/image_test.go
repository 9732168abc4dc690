package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestReferencesAreThoseOfTheKubelet(t *testing.T) {
	for name, want := range map[string]string{
		"kaas":                "docker.io/library/kaas:latest",
		"kaas:1":              "docker.io/library/kaas:1",
		"team/kaas":           "docker.io/team/kaas:latest",
		"kaas.dev/pause:1":    "kaas.dev/pause:1",
		"localhost/x":         "localhost/x:latest",
		"registry:5000/x":     "registry:5000/x:latest",
		"registry:5000/a/x:2": "registry:5000/a/x:2",
	} {
		if got := Reference(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// unpack returns the files of an archive and what they hold.
func unpack(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnImageHoldsItsPrograms(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "broker")
	if err := os.WriteFile(bin, []byte("code"), 0o755); err != nil {
		t.Fatal(err)
	}
	i := &Image{Name: "kaas:1", Programs: []string{bin}, User: "65532"}
	first, second := &bytes.Buffer{}, &bytes.Buffer{}
	for _, w := range []io.Writer{first, second} {
		if err := i.Write(w); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same program makes another image")
	}
	files := unpack(t, first.Bytes())
	var manifest []struct {
		Config   string
		RepoTags []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if want := []string{"docker.io/library/kaas:1"}; !slices.Equal(manifest[0].RepoTags, want) {
		t.Errorf("it is called %v, want %v", manifest[0].RepoTags, want)
	}
	var config struct {
		Config struct {
			Entrypoint []string
			User       string
		} `json:"config"`
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Config.Entrypoint, []string{"/broker"}) || config.Config.User != "65532" {
		t.Errorf("it runs %+v", config.Config)
	}
	if want := "sha256:" + sum(files["layer.tar"]); config.RootFS.DiffIDs[0] != want {
		t.Errorf("its layer is said to be %s and is %s", config.RootFS.DiffIDs[0], want)
	}
	if got := unpack(t, files["layer.tar"])["broker"]; string(got) != "code" {
		t.Errorf("its layer holds %q as the program", got)
	}
	if err := (&Image{Name: "none"}).Write(io.Discard); err == nil {
		t.Error("an image of nothing is made")
	}
}
