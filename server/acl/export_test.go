package acl

const MostKept = mostKept

var Everybody = everybody

func (v *View) Kept() int64 { return v.kept.Load() }
