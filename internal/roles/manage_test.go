package roles_test

import (
	"testing"

	"github.com/weft-fabric/weft/internal/roles"
)

// What manages a stream or a consumer is the operator's, on whatever stream.
func TestNobodyElseManagesStreams(t *testing.T) {
	t.Parallel()
	s := newSite(t, hashes)
	before := s.fabricAtRest("weft", "hash")
	var manages []string
	for _, name := range []string{"KV_weft", "WEFT_hash", "WEFT_CRON", "OBJ_weft-input", "OBJ_weft-output"} {
		for _, verb := range []string{"UPDATE", "DELETE", "SNAPSHOT", "RESTORE", "LEADER.STEPDOWN", "PEER.REMOVE"} {
			manages = append(manages, "$JS.API.STREAM."+verb+"."+name)
		}
		for _, verb := range []string{"PAUSE", "LEADER.STEPDOWN", "DURABLE.CREATE", "UNPIN"} {
			manages = append(manages, "$JS.API.CONSUMER."+verb+"."+name+".runners")
		}
	}
	manages = append(manages,
		"$JS.API.STREAM.PURGE.KV_weft", "$JS.API.STREAM.PURGE.WEFT_hash", "$JS.API.STREAM.MSG.DELETE.KV_weft",
		"$JS.API.CONSUMER.DELETE.WEFT_hash.runners", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.ACCOUNT.PURGE.X",
		"$KV.weft.cron.nightly", "weft.cron.nightly", "weft.tick.nightly", "$KV.weft.leader.keeper", "$KV.weft.anything", "weft.may.operate",
		"$SYS.REQ.SERVER.PING", "$SRV.PING", "weft.event.job.x")
	for _, r := range []roles.Role{roles.Backend, roles.Runner, roles.Viewer} {
		p := s.probe("weft", r)
		for _, subject := range manages {
			if !p.publish(subject, nil) {
				t.Errorf("%s can publish to %s", r, subject)
			}
		}
		for _, subject := range []string{"weft.work.>", "weft.later.>", "weft.tick.>", "$KV.weft.>", "$JS.EVENT.>", "$SYS.>", "weft.api.*"} {
			if !p.subscribe(subject) {
				t.Errorf("%s can subscribe to %s", r, subject)
			}
		}
	}
	before.check()
}
