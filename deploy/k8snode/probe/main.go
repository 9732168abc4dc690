// Command probe is a pod that tells tests what it sees. It serves HTTP on port 8080:
//
//	/           its host name
//	/lookup     the addresses of ?name=, one a line
//	/get        what ?url= answers
//	/write      stores ?text= in ?file= below /data
//	/read       what is in ?file= there
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	mux := http.NewServeMux()
	for path, answer := range map[string]func(*http.Request) (string, error){
		"/{$}":    func(*http.Request) (string, error) { return os.Hostname() },
		"/lookup": lookup,
		"/get":    get,
		"/write":  write,
		"/read":   read,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			text, err := answer(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			_, _ = io.WriteString(w, text) // who hangs up needs no answer
		})
	}
	fmt.Println("serving")
	if err := http.ListenAndServe(":8080", mux); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func lookup(r *http.Request) (string, error) {
	found, err := net.DefaultResolver.LookupHost(r.Context(), r.FormValue("name"))
	return strings.Join(found, "\n"), err
}

func get(r *http.Request) (string, error) {
	resp, err := http.Get(r.FormValue("url"))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func file(r *http.Request) string { return filepath.Join("/data", filepath.Base(r.FormValue("file"))) }

func write(r *http.Request) (string, error) {
	return "", os.WriteFile(file(r), []byte(r.FormValue("text")), 0o644)
}

func read(r *http.Request) (string, error) {
	b, err := os.ReadFile(file(r))
	return string(b), err
}
