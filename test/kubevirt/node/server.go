package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serve is the HTTPS server of virt-handler, the same for all nodes, until the context ends.
func (n *Nodes) serve(ctx context.Context) error {
	routes := http.NewServeMux()
	routes.HandleFunc("/v1/namespaces/{namespace}/virtualmachineinstances/{name}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		key := client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
		n.options.Log.Info("Serves", "vmi", key, "verb", r.PathValue("verb"))
		if err := n.call(r.Context(), key, r.PathValue("verb")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}")) // virt-api may have hung up
	})
	server := &http.Server{
		Addr: fmt.Sprintf(":%d", n.options.Port), Handler: routes, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{n.options.Certificate}, MinVersion: tls.VersionTLS12},
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // calls in progress are lost
	defer stop()
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve as virt-handler: %w", err)
	}
	return nil
}

// call writes what a verb changes, as the virt-handler of the VMI's node. Verbs that change nothing
// in the API, such as reset, succeed.
func (n *Nodes) call(ctx context.Context, key client.ObjectKey, verb string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		if err := n.reader.Get(ctx, key, vmi); err != nil {
			return err
		}
		o := instanceObservation{now: metav1.Now()}
		switch verb {
		case "pause":
			o.setCondition(vmi, kubevirtv1.VirtualMachineInstancePaused)
		case "unpause":
			dropConditions(vmi, kubevirtv1.VirtualMachineInstancePaused)
		case "freeze":
			vmi.Status.FSFreezeStatus = "frozen"
		case "unfreeze":
			vmi.Status.FSFreezeStatus = ""
		default:
			return nil
		}
		return n.handlers[vmi.Status.NodeName].Update(ctx, vmi)
	})
}
