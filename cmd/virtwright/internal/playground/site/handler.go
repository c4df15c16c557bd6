// Package site serves the page of the playground.
package site

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"path"
	"sync"
)

const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; worker-src 'self'; " +
	"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var headers = map[string]string{
	"Content-Security-Policy":      policy,
	"X-Content-Type-Options":       "nosniff",
	"Cache-Control":                "no-store", // files of the page have fileCache
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
}

// fileCache lets browsers keep files, and ask each time whether they are current.
const fileCache = "no-cache"

// types do not depend on the settings of the operating system, unlike those of package mime.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".json": "application/json", ".txt": "text/plain; charset=utf-8", ".svg": "image/svg+xml", ".gz": "application/gzip",
}

// Handler serves files, read-only. It serves state as state.json to requests with the token; no
// token matches an empty one. It rejects requests for host names that are not loopback, because a
// hostile page could resolve its own name to this server.
func Handler(files fs.FS, state []byte, token string) http.Handler {
	page := http.FileServerFS(files)
	var tags sync.Map // by path
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		switch {
		case !isLoopback(r.Host):
			http.Error(w, "only loopback addresses are served", http.StatusForbidden)
		case r.Method != http.MethodGet:
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
		case path.Clean(r.URL.Path) == "/state.json":
			given := r.URL.Query().Get("token")
			if token == "" || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", types[".json"])
			_, _ = w.Write(state) // the browser is gone if this fails
		default:
			if known := types[path.Ext(r.URL.Path)]; known != "" {
				w.Header().Set("Content-Type", known)
			}
			if tag := tagOf(files, &tags, path.Clean(r.URL.Path)); tag != "" {
				w.Header().Set("Cache-Control", fileCache)
				w.Header().Set("ETag", tag)
			}
			page.ServeHTTP(w, r)
		}
	})
}

// tagOf returns the ETag of a file; empty if there is no such file.
func tagOf(files fs.FS, tags *sync.Map, name string) string {
	if name == "/" {
		name = "/index.html"
	}
	if known, ok := tags.Load(name); ok {
		return known.(string) //nolint:forcetypeassert // stored below
	}
	content, err := fs.ReadFile(files, name[1:])
	if err != nil {
		return ""
	}
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256(content))
	tags.Store(name, tag)
	return tag
}

func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
