package acl

const MostKept = mostKept

func (v *View) Kept() int64 { return v.kept.Load() }
