package timeline

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io"
	"path"
	"sync"
)

//go:embed web
var web embed.FS

// pageParts is what html/template puts into web/page.html.
type pageParts struct {
	Title, StyleHash, ScriptHash string
	Style                        template.CSS
	Script, Data                 template.JS
}

type source struct {
	page          *template.Template
	style, script string
}

// loadWeb reads what is embedded, once.
var loadWeb = sync.OnceValues(func() (source, error) {
	page, err := template.ParseFS(web, "web/page.html")
	if err != nil {
		return source{}, err
	}
	style, err := web.ReadFile("web/page.css")
	if err != nil {
		return source{}, err
	}
	script, err := joinScripts()
	return source{page, string(style), script}, err
})

// joinScripts makes one script of all, in the order of their names: they share one scope
// and leave nothing in the page's.
func joinScripts() (string, error) {
	files, err := web.ReadDir("web")
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	b.WriteString("(function () {\n\"use strict\";\n")
	for _, f := range files {
		if path.Ext(f.Name()) != ".js" {
			continue
		}
		js, err := web.ReadFile("web/" + f.Name())
		if err != nil {
			return "", err
		}
		b.Write(js)
	}
	b.WriteString("})();\n")
	return b.String(), nil
}

// WritePage writes the page.
func (t *Timeline) WritePage(w io.Writer) error {
	src, err := loadWeb()
	if err != nil {
		return err
	}
	data, err := t.data()
	if err != nil {
		return err
	}
	return src.page.Execute(w, pageParts{
		Title:     "kaas timeline: " + visible(t.Cluster),
		StyleHash: hashOf(src.style), ScriptHash: hashOf(src.script),
		Style: template.CSS(src.style), Script: template.JS(src.script), Data: template.JS(data),
	})
}

// hashOf is how the page's policy names the one script and the one style that it lets in.
func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
