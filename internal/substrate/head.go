package substrate

// HeadBody is the body of an epoch's HEAD: the newest position that its owner has
// acknowledged. Followers use it as a hint; it is renamed into place after the
// acknowledgement, and not fsynced.
type HeadBody struct {
	Pos Position `msgpack:"pos"`
}

// ReadHead reads an epoch's HEAD. It reports false where there is none, or none that
// can be read: a crash may tear it, and a client that replaces a file which a process
// of its host has open takes the name away for a moment.
func (v *Volume) ReadHead(stream string, e Epoch) (Position, bool) {
	name := stream + "/" + EpochName(e) + "/" + HeadName
	b, err := v.ReadFile(name)
	if err != nil {
		return Position{}, false
	}
	var h HeadBody
	if _, err := DecodeFile(name, KindHead, b, &h); err != nil || h.Pos.Epoch != e {
		return Position{}, false
	}
	return h.Pos, true
}
