package site

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func TestHandler(t *testing.T) {
	files := fstest.MapFS{"index.html": {Data: []byte("page")}, "app.js": {Data: []byte("script")}, "engine.wasm.gz": {Data: []byte("engine")}}
	server := httptest.NewServer(Handler(files, []byte(`{"vm":"secret"}`), "right"))
	defer server.Close()
	closed := httptest.NewServer(Handler(files, nil, ""))
	defer closed.Close()
	for name, c := range map[string]struct {
		reason, method, path, host string
		server                     *httptest.Server
		status                     int
		kind, body                 string
	}{
		"page":              {"the page", "GET", "/", "", server, 200, "text/html; charset=utf-8", "page"},
		"script":            {"browsers reject scripts of another type", "GET", "/app.js", "", server, 200, "text/javascript; charset=utf-8", "script"},
		"engine":            {"the page unpacks it itself", "GET", "/engine.wasm.gz", "", server, 200, "application/gzip", "engine"},
		"unknown file":      {"there is no such file", "GET", "/etc/passwd", "", server, 404, "", ""},
		"parent":            {"only files of the page", "GET", "/../site/handler.go", "", server, 404, "", ""},
		"head":              {"the page needs none", "HEAD", "/", "", server, 405, "", ""},
		"post":              {"nothing is written", "POST", "/", "", server, 405, "", ""},
		"put":               {"nothing is written", "PUT", "/state.json?token=right", "", server, 405, "", ""},
		"options":           {"no other page may ask", "OPTIONS", "/state.json?token=right", "", server, 405, "", ""},
		"state":             {"the token opens it", "GET", "/state.json?token=right", "", server, 200, "application/json", `{"vm":"secret"}`},
		"no token":          {"other users do not know the token", "GET", "/state.json", "", server, 404, "", ""},
		"wrong token":       {"other users do not know the token", "GET", "/state.json?token=wrong", "", server, 404, "", ""},
		"start of a token":  {"the whole token", "GET", "/state.json?token=righ", "", server, 404, "", ""},
		"no state":          {"there is none", "GET", "/state.json?token=", "", closed, 404, "", ""},
		"localhost":         {"a name of this computer", "GET", "/", "localhost:1", server, 200, "text/html; charset=utf-8", "page"},
		"IPv6":              {"a loopback address", "GET", "/", "[::1]:1", server, 200, "text/html; charset=utf-8", "page"},
		"rebound name":      {"a hostile page may resolve its name to this address", "GET", "/state.json?token=right", "evil.example", server, 403, "", ""},
		"name like ours":    {"only the name itself", "GET", "/", "localhost.evil.example", server, 403, "", ""},
		"another interface": {"only loopback", "GET", "/", "192.0.2.1", server, 403, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), c.method, c.server.URL+c.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = c.host
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != c.status || c.status == 200 && (string(body) != c.body || response.Header.Get("Content-Type") != c.kind) {
				t.Errorf("%s: got %s, %s, %q, %v", c.reason, response.Status, response.Header.Get("Content-Type"), body, err)
			}
			if c.status != 200 && strings.Contains(string(body), "secret") {
				t.Errorf("%s: got the state", c.reason)
			}
			for header, value := range headers {
				isFile := response.Header.Get("ETag") != ""
				if header == "Cache-Control" && isFile {
					value = "no-cache"
				}
				if isFile != (c.status == 200 && c.kind != "application/json") {
					t.Errorf("%s: ETag %q", c.path, response.Header.Get("ETag"))
				}
				if got := response.Header.Get(header); got != value && !(c.status == 404 && header == "Cache-Control") { // without content
					t.Errorf("%s: %q, not %q", header, got, value)
				}
			}
		})
	}
}

// TestCache checks that browsers load a file once.
func TestCache(t *testing.T) {
	handler := Handler(fstest.MapFS{"engine.wasm.gz": {Data: []byte("engine")}}, nil, "")
	tag := ""
	for _, want := range []int{http.StatusOK, http.StatusNotModified} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/engine.wasm.gz", http.NoBody)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("got %d, want %d", w.Code, want)
		}
		tag = w.Header().Get("ETag")
	}
}
