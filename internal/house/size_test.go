package house

import "testing"

const (
	mostLines     = 800  // of a file
	usualLines    = 400  // that nine of ten files stay under
	mostTestLines = 1000 // of a test file
)

func TestFilesStayShort(t *testing.T) {
	tr := load(t)
	files, long := 0, []string{}
	for _, f := range tr.Go {
		most := mostLines
		if f.Test {
			most = mostTestLines
		} else {
			files++
			if f.Lines >= usualLines {
				long = append(long, f.Name)
			}
		}
		if f.Lines >= most {
			t.Errorf("%s has %d lines, the most is %d: split it into files of one idea each", f.Name, f.Lines, most)
		}
	}
	if len(long)*10 > files {
		t.Errorf("%d of %d files have %d lines or more, at most one in ten may: split some of %v", len(long), files, usualLines, long)
	}
}
