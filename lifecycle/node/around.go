package node

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// logPeriod is how often logs are looked at that grow.
const logPeriod = 10 * time.Second

// keyOf is the name of the instance of which a domain has its name.
func keyOf(domain string) (types.NamespacedName, bool) {
	namespace, name, whole := strings.Cut(domain, "_")
	if !whole || namespace == "" || name == "" || strings.Contains(name, "_") {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
}

// lookAround looks at everything whenever it is told to: each domain, each
// instance of ours, each folder of one that may be gone. The first time it also
// looks at the host.
func (c *Controller) lookAround(told <-chan struct{}) runnable {
	return func(ctx context.Context) error {
		log := ctrl.LoggerFrom(ctx).WithName("host")
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-told:
			}
			if c.facts.Load() == nil {
				facts, err := c.Look(ctx)
				if err != nil {
					if ctx.Err() == nil {
						log.Error(err, "Cannot look at the host; trying again")
						time.AfterFunc(soonest, c.Libvirt.Look)
					}
					continue
				}
				log.Info("Looked at the host", "architecture", facts.Architecture, "kvm", facts.KVM)
				c.facts.Store(facts)
			}
			if err := c.everything(ctx); err != nil && ctx.Err() == nil {
				log.Info("Cannot look at everything; trying again later", "reason", err.Error())
			}
		}
	}
}

// Ready is nil once the agent can run instances.
func (c *Controller) Ready() error {
	switch {
	case !c.Libvirt.Connected():
		return errNoLibvirt
	case c.facts.Load() == nil:
		return errNotLooked
	}
	return nil
}

// everything has every name looked at of which this host may have something.
func (c *Controller) everything(ctx context.Context) error {
	keys := map[types.NamespacedName]bool{}
	names, err := c.Libvirt.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if key, known := keyOf(name); known {
			keys[key] = true
		}
	}
	uids, err := c.Files.All()
	if err != nil {
		return err
	}
	left := map[types.NamespacedName][]types.UID{}
	for _, uid := range uids {
		key := c.Files.Owner(uid)
		if key.Name == "" {
			if err := c.Files.RemoveNameless(uid); err != nil {
				return err
			}
			continue
		}
		left[key] = append(left[key], uid)
		keys[key] = true
	}
	c.memory.found(left)
	var all kubevirtv1.VirtualMachineInstanceList
	if err := c.Client.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		if node := all.Items[i].Status.NodeName; node == c.Node || node == "" {
			keys[client.ObjectKeyFromObject(&all.Items[i])] = true
		}
	}
	for key := range keys {
		c.enqueue(key, true)
	}
	return nil
}

// boundLogs keeps logs from filling the host's disk.
func (c *Controller) boundLogs(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("logs")
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logPeriod):
		}
		if err := c.Files.BoundLogs(); err != nil {
			log.Info("Cannot bound the logs of guests; trying again", "reason", err.Error())
		}
	}
}
