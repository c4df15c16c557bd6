package subresources

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// echo is a launcher with a guest that echoes until it reads "exit" or its client disconnects.
type echo struct{}

func (echo) ExecInContainer(_ context.Context, _, _, _ string, _ []string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	input := bufio.NewReader(in)
	line, err := input.ReadString('\n')
	for line = strings.Replace(line, "console", "ok", 1); err == nil && line != "exit\n"; line, err = input.ReadString('\n') {
		if _, err := io.WriteString(out, line); err != nil {
			return nil //nolint:nilerr // the client disconnected
		}
	}
	return nil
}

// consoles serves consoles of the VMI web. Its pod executes commands with the library of container
// runtimes over SPDY.
func consoles(t *testing.T) (*launchers, *httptest.Server) {
	t.Helper()
	objects := map[string]string{
		"/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances/web": `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
"metadata": {"name": "web", "namespace": "shop", "uid": "vmi-1"}, "status": {"phase": "Running", "activePods": {"pod-1": "one"}}}`,
		"/api/v1/namespaces/shop/pods/virt-launcher-web": `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "virt-launcher-web", "namespace": "shop",
"uid": "pod-1", "ownerReferences": [{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "web", "uid": "vmi-1", "controller": true}]}, "status": {"phase": "Running"}}`,
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if object, is := objects[r.URL.Path]; is {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(object))
			return
		}
		options := &remotecommand.Options{Stdin: true, Stdout: true}
		remotecommand.ServeExec(w, r, echo{}, "", "", "", nil, options, time.Hour, time.Minute, remotecommand.SupportedStreamingProtocols)
	}))
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	l := newLaunchers(&cluster{client: clients.Discovery().RESTClient()}, clients, config)
	info := &apirequest.RequestInfo{Namespace: "shop", Name: "web"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.streams("console")(w, r.WithContext(apirequest.WithRequestInfo(r.Context(), info)))
	}))
	t.Cleanup(server.Close)
	return l, server
}

// console connects to a console that echoes.
func console(t *testing.T, server *httptest.Server) *websocket.Conn {
	t.Helper()
	client, _, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), nil) //nolint:bodyclose // the body is the connection
	if err != nil {
		t.Fatal(err)
	}
	if err := client.WriteMessage(websocket.TextMessage, []byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if kind, text, err := client.ReadMessage(); err != nil || kind != websocket.BinaryMessage || string(text) != "hello\n" {
		t.Fatalf("got %d %q, %v", kind, text, err)
	}
	return client
}

// TestConsolesEnd checks that no goroutine of a console stays.
func TestConsolesEnd(t *testing.T) {
	l, server := consoles(t)
	ends := map[string]func(*websocket.Conn){
		"the client disconnects": func(*websocket.Conn) {},
		"the client closes": func(c *websocket.Conn) {
			_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
		},
		"the guest ends": func(c *websocket.Conn) { _ = c.WriteMessage(websocket.BinaryMessage, []byte("exit\n")) },
	}
	before := runtime.NumGoroutine()
	settled := func(most int) int {
		for wait := time.Millisecond; ; wait *= 2 {
			n := runtime.NumGoroutine()
			if n <= most || wait > 10*time.Second {
				return n
			}
			time.Sleep(wait)
		}
	}
	for name, end := range ends {
		for range 10 {
			client := console(t, server)
			end(client)
			_ = client.Close()
		}
		if after := settled(before + 8); after > before+8 {
			t.Errorf("%s: %d goroutines, before %d", name, after, before)
		}
	}
	for len(l.open) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestConsolesOfAServerThatStops checks that stopping the server ends consoles.
func TestConsolesOfAServerThatStops(t *testing.T) {
	l, server := consoles(t)
	client := console(t, server)
	l.close()
	if _, _, err := client.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("got %v", err)
	}
}
