package subresources

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/virtwright/virtwright/launcher/podspec"
)

// echo is a launcher with a guest that echoes until it reads "exit" or its client disconnects. In
// the pod of the VMI silent, it never answers. In that of the VMI slow, it prints, reads late, and
// tells how much it has read.
type echo struct{ read chan<- int64 }

// ExecInContainer runs the launcher.
func (e echo) ExecInContainer(_ context.Context, pod, _, _ string, _ []string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if pod == podspec.Name("silent") {
		_, _ = io.Copy(io.Discard, in) // until the client disconnects
		return nil
	}
	input := bufio.NewReader(in)
	if pod == podspec.Name("slow") {
		_, _ = input.ReadString('\n')
		_, _ = io.WriteString(out, "ok\n")
		time.Sleep(100 * time.Millisecond)
		_, _ = io.WriteString(out, ".\n") // the client may have left
		n, _ := io.Copy(io.Discard, input)
		e.read <- n
		return nil
	}
	line, err := input.ReadString('\n')
	for line = strings.Replace(line, "console", "ok", 1); err == nil && line != "exit\n"; line, err = input.ReadString('\n') {
		if _, err := io.WriteString(out, line); err != nil {
			return nil //nolint:nilerr // the client disconnected
		}
	}
	return nil
}

const (
	aVMI = `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
"metadata": {"name": %q, "namespace": %q, "uid": "vmi-1"}, "status": {"phase": "Running", "activePods": {"pod-1": "one"}}}`
	aPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "namespace": %q, "uid": "pod-1",
"ownerReferences": [{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "web", "uid": "vmi-1", "controller": true}]}, "status": {"phase": "Running"}}`
)

// consoles serves consoles of all VMIs as /NAMESPACE/NAME?as=USER. Their pods execute commands with
// the library of container runtimes over SPDY.
func consoles(t *testing.T, guest echo) (*launchers, *httptest.Server) {
	t.Helper()
	routes := http.NewServeMux()
	routes.HandleFunc("/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances/{name}", answerOf(aVMI))
	routes.HandleFunc("/api/v1/namespaces/{namespace}/pods/{name}", answerOf(aPod))
	routes.HandleFunc("/api/v1/namespaces/{namespace}/pods/{name}/exec", func(w http.ResponseWriter, r *http.Request) {
		options := &remotecommand.Options{Stdin: true, Stdout: true}
		remotecommand.ServeExec(w, r, guest, r.PathValue("name"), "", "", nil, options, time.Hour, time.Minute, remotecommand.SupportedStreamingProtocols)
	})
	api := httptest.NewServer(routes)
	t.Cleanup(api.Close)
	config := &rest.Config{Host: api.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	l := newLaunchers(&cluster{client: clients.Discovery().RESTClient()}, clients, config)
	here := http.NewServeMux()
	here.HandleFunc("/{namespace}/{name}", func(w http.ResponseWriter, r *http.Request) {
		ctx := apirequest.WithRequestInfo(r.Context(), &apirequest.RequestInfo{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")})
		l.serveStream(func(*http.Request) (endpoint, error) { return endpoint{action: "console"}, nil })(w, r.WithContext(apirequest.WithUser(ctx, &user.DefaultInfo{Name: r.FormValue("as")})))
	})
	server := httptest.NewServer(here)
	t.Cleanup(server.Close)
	return l, server
}

func answerOf(object string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, object, r.PathValue("name"), r.PathValue("namespace"))
	}
}

// dial asks for a console. The response is the answer to a rejected request.
func dial(ctx context.Context, server *httptest.Server, path string) (*websocket.Conn, *http.Response) {
	client, response, err := websocket.DefaultDialer.DialContext(ctx, "ws"+strings.TrimPrefix(server.URL, "http")+path, nil)
	if err != nil {
		return nil, response
	}
	return client, nil
}

// console connects to a console that echoes.
func console(t *testing.T, server *httptest.Server, path string) *websocket.Conn {
	t.Helper()
	client, response := dial(t.Context(), server, path) //nolint:bodyclose // the body is in memory
	if client == nil {
		t.Fatalf("%s: %+v", path, response)
	}
	t.Cleanup(func() { _ = client.Close() }) // the test may have closed it
	if err := client.WriteMessage(websocket.TextMessage, []byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if kind, text, err := client.ReadMessage(); err != nil || kind != websocket.BinaryMessage || string(text) != "hello\n" {
		t.Fatalf("got %d %q, %v", kind, text, err)
	}
	return client
}

// rejected checks that a console is answered with 429, and returns the message.
func rejected(t *testing.T, server *httptest.Server, path string) string {
	t.Helper()
	client, response := dial(t.Context(), server, path) //nolint:bodyclose // the body is in memory
	if client != nil || response == nil || response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
		t.Fatalf("%s: got %+v, want 429 with Retry-After", path, response)
	}
	var status metav1.Status
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	return status.Message
}

// request asks for a console until the context ends.
func request(ctx context.Context, url string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		panic(err)
	}
	r.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="},
	}
	if response, err := http.DefaultClient.Do(r); err == nil {
		_ = response.Body.Close()
	}
}

// becomes waits for a number.
func becomes(t *testing.T, what string, want int, count func() int) {
	t.Helper()
	for wait := time.Millisecond; count() != want; wait *= 2 {
		if wait > 10*time.Second {
			t.Fatalf("%s: got %d, want %d", what, count(), want)
		}
		time.Sleep(wait)
	}
}

// now returns how many streams are open on the replica, and how many are counted for users.
func (s *shares) now() (open, counted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.users {
		counted += n
	}
	return s.open, counted
}

// TestSharesOfConsoles checks that the consoles of a user, or of users of a namespace, leave room
// for others.
func TestSharesOfConsoles(t *testing.T) {
	l, server := consoles(t, echo{})
	for user := range maxNamespaceStreams / maxUserStreams {
		path := fmt.Sprintf("/shop/web?as=user-%d", user)
		for range maxUserStreams {
			console(t, server, path)
		}
		want := "you have 16 connections to guests on this replica, the limit for a user; close one, or try again"
		if got := rejected(t, server, strings.Replace(path, "shop", "other", 1)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	want := "namespace shop has 32 connections to guests on this replica, the limit for a namespace; close one, or try again"
	if got := rejected(t, server, "/shop/web?as=alice"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for n := range maxStreams - maxNamespaceStreams {
		console(t, server, fmt.Sprintf("/namespace-%d/web?as=alice-%d", n/maxUserStreams, n/maxUserStreams))
	}
	want = "64 connections to guests are open on this replica, its limit; close one, or try again"
	if got := rejected(t, server, "/other/web?as=alice"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for limit, want := range map[string]float64{"user": 2, "namespace": 1, "replica": 1} {
		if got := testutil.ToFloat64(l.streams.rejected.WithLabelValues(limit)); got != want {
			t.Errorf("%s: the metric is %v, want %v", limit, got, want)
		}
	}
	l.close()
	becomes(t, "open consoles of a server that stops", 0, func() int { open, counted := l.streams.now(); return open + counted })
}

// TestConsolesThatWait checks that consoles whose launchers do not answer keep no other user out.
func TestConsolesThatWait(t *testing.T) {
	l, server := consoles(t, echo{})
	ctx, disconnect := context.WithCancel(t.Context())
	defer disconnect()
	for n := range maxStreams {
		go request(ctx, server.URL+fmt.Sprintf("/namespace-%d/silent?as=user-%d", n/maxNamespaceStreams, n/maxUserStreams))
	}
	becomes(t, "waiting consoles", maxStreams, func() int { _, counted := l.streams.now(); return counted })
	console(t, server, "/shop/web?as=alice")
	disconnect()
	becomes(t, "consoles whose clients disconnected", 1, func() int { _, counted := l.streams.now(); return counted })
}

// TestConsolesEnd checks that no goroutine of a console stays.
func TestConsolesEnd(t *testing.T) {
	l, server := consoles(t, echo{})
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
			client := console(t, server, "/shop/web")
			end(client)
			_ = client.Close()
		}
		if after := settled(before + 8); after > before+8 {
			t.Errorf("%s: %d goroutines, before %d", name, after, before)
		}
	}
	becomes(t, "open consoles", 0, func() int { open, counted := l.streams.now(); return open + counted })
}

// TestLastBytes checks that a guest that reads late gets all that a client sent before it closed.
func TestLastBytes(t *testing.T) {
	read := make(chan int64, 1)
	l, server := consoles(t, echo{read})
	client, response := dial(t.Context(), server, "/shop/slow") //nolint:bodyclose // the body is in memory
	if client == nil {
		t.Fatalf("%+v", response)
	}
	defer func() { _ = client.Close() }()
	const messages, size = 200, 1000
	for range messages {
		if err := client.WriteMessage(websocket.BinaryMessage, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	end := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	if err := client.WriteMessage(websocket.CloseMessage, end); err != nil {
		t.Fatal(err)
	}
	if n := <-read; n != messages*size {
		t.Errorf("the guest read %d bytes", n)
	}
	becomes(t, "open consoles", 0, func() int { open, _ := l.streams.now(); return open })
}

// TestConsolesOfAServerThatStops checks that stopping the server ends consoles, and says so.
func TestConsolesOfAServerThatStops(t *testing.T) {
	l, server := consoles(t, echo{})
	client := console(t, server, "/shop/web")
	l.close()
	if _, _, err := client.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) || !strings.Contains(err.Error(), string(endedHere)) {
		t.Errorf("got %v", err)
	}
}

// TestPorts reads ports from paths.
func TestPorts(t *testing.T) {
	infos := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("apis"), GrouplessAPIPrefixes: sets.NewString()}
	for path, want := range map[string]string{
		"virtualmachines/web/portforward/22": "portforward 22", "virtualmachineinstances/web/portforward/65535/tcp": "portforward 65535",
		"virtualmachineinstances/web/portforward/0": `port "0" must be 1 to 65535`, "virtualmachines/web/portforward/ssh": `port "ssh" must be 1 to 65535`,
		"virtualmachines/web/portforward/53/udp": `protocol "udp" is not forwarded: use tcp, or a Service`,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/apis/"+Group+"/v1/namespaces/n/"+path, http.NoBody)
		info, err := infos.NewRequestInfo(r)
		if err != nil {
			t.Fatal(err)
		}
		to, err := toPort(r.WithContext(apirequest.WithRequestInfo(r.Context(), info)))
		got := string(to.line())
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
