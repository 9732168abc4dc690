package substrate

import (
	"fmt"
	"path"
)

const (
	volumeDir  = "volume"
	volumeFile = "volume/id"
)

type volumeBody struct {
	ID string `msgpack:"id"`
}

// OpenVolume reads the volume's ID, making it first if the volume has none. wantID
// empty accepts any ID; otherwise another one is an error and nothing is changed.
//
// The directory volume/ is built aside and renamed into place, so it has one
// maker and the losers read what the winner made (rules 1 and 2).
func OpenVolume(fs FS, wantID string) (*Volume, error) {
	v := &Volume{FS: fs}
	return v, v.Init(wantID)
}

// Init is OpenVolume for a Volume whose options are set.
func (v *Volume) Init(wantID string) error {
	id, err := v.readID()
	if isNotExist(err) {
		if err = v.checkEmpty(); err == nil {
			id, err = v.makeID(wantID)
		} else if made, again := v.readID(); !isNotExist(again) {
			// Another has made the volume meanwhile: its ID is there before all else.
			id, err = made, again
		}
	}
	if err != nil {
		return err
	}
	if wantID != "" && id != wantID {
		return fmt.Errorf("%s: the volume belongs to cluster %s, not to %s", volumeFile, id, wantID)
	}
	v.ID = id
	return nil
}

// ReadVolume reads the ID of an existing volume and changes nothing.
func ReadVolume(fs FS) (*Volume, error) {
	v := &Volume{FS: fs}
	id, err := v.readID()
	if err != nil {
		return nil, fmt.Errorf("not a kaas volume: %w", err)
	}
	v.ID = id
	return v, nil
}

func (v *Volume) readID() (string, error) {
	// The listing decides whether the name exists; an open may be answered from a cached miss.
	es, err := v.ListFresh(".")
	if err != nil {
		return "", err
	}
	found := false
	for _, e := range es {
		found = found || e.Name == volumeDir
	}
	// So does it of volume/, that a file which was replaced is not read from this host's memory.
	if found {
		if _, err := v.ListFresh(volumeDir); err != nil && !isNotExist(err) {
			return "", err
		}
	}
	b, err := v.ReadFile(volumeFile)
	if err != nil {
		if found && isNotExist(err) {
			return "", &NameError{volumeFile, "the volume has no ID file in volume/"}
		}
		return "", err
	}
	var body volumeBody
	if _, err := DecodeFile(volumeFile, KindVolume, b, &body); err != nil {
		return "", err
	}
	if body.ID == "" {
		return "", &DamageError{File: volumeFile, Offset: FrameHeader, Cause: "the volume's ID is empty"}
	}
	return body.ID, nil
}

// checkEmpty refuses to make a volume where metadata of ours lies without an ID.
func (v *Volume) checkEmpty() error {
	es, err := v.ListFresh(".")
	if err != nil {
		return err
	}
	for _, e := range es {
		if e.Name == "meta" || e.Name == "topics" {
			return &NameError{volumeFile, fmt.Sprintf("missing, but %s/ is there: refusing to make a new volume over an old one", e.Name)}
		}
	}
	return nil
}

func (v *Volume) makeID(wantID string) (string, error) {
	id := wantID
	if id == "" {
		id = v.newID()
	}
	data, err := EncodeFile(KindVolume, 0, volumeBody{ID: id})
	if err != nil {
		return "", err
	}
	tmp := v.TempName(".", "volume")
	if err := v.buildDir(tmp, map[string][]byte{path.Base(volumeFile): data}); err != nil {
		_ = v.RemoveTree(tmp)
		return "", fmt.Errorf("make %s: %w", volumeFile, err)
	}
	if err := v.Rename(tmp, volumeDir); err != nil {
		// Lost the race, or a lost reply: what is there decides.
		_ = v.Discard(tmp)
		if _, rerr := v.readID(); rerr != nil {
			return "", fmt.Errorf("make %s: %w", volumeFile, err)
		}
	}
	if err := v.syncDir("."); err != nil {
		return "", fmt.Errorf("make %s: %w", volumeFile, err)
	}
	return v.readID()
}

// buildDir makes a directory with files in it, all durable but for its own name.
func (v *Volume) buildDir(dir string, files map[string][]byte) error {
	if err := v.Mkdir(dir); err != nil {
		return err
	}
	for name, data := range files {
		if err := v.WriteFile(path.Join(dir, name), data); err != nil {
			return err
		}
	}
	return v.syncDir(dir)
}

// MetaDir is the directory of the cluster's streams, below the volume's ID.
func (v *Volume) MetaDir() string { return "meta/" + v.ID }
