//! The event stream: what happens is told, also what another process does; nothing is lost without a word.

use crate::on_both_stores;
use crate::world::World;
use punctual_core::access::Role;
use punctual_core::job::NewJob;
use punctual_core::store::NewNode;
use punctual_core::target::Target;
use serde_json::{Value, json};

on_both_stores! {
    b10_what_happens_is_told_whoever_does_it,
    b10_whoever_comes_back_is_told_what_he_missed,
    b10_a_change_says_which_list_it_is_about,
    b10_nodes_that_come_and_go_are_told,
    a26_events_of_others_are_not_told,
}

fn job() -> NewJob {
    NewJob::new(Target::task("work"))
}

async fn b10_what_happens_is_told_whoever_does_it(world: &World) {
    let mut events = world.call("GET", "/events").listen().await;
    assert_eq!(events.next().await.unwrap().kind, "ready");
    // Behind the server's back, as another node does it.
    world.store.enqueue_jobs(vec![job()]).await.unwrap();
    let created: Value = serde_json::from_str(&events.until("job.created").await.data).unwrap();
    assert_eq!((&created["state"], &created["queue"]), (&json!("queued"), &json!("default")));
    let path = format!("/jobs/{}/cancel", created["id"].as_str().unwrap());
    world.call("POST", &path).send().await.expect(200);
    let ended: Value = serde_json::from_str(&events.until("job.ended").await.data).unwrap();
    assert_eq!(
        (&ended["id"], &ended["state"], &ended["error_code"]),
        (&created["id"], &json!("cancelled"), &json!("cancelled"))
    );
    world.call("PATCH", "/queues/mail").json(&json!({ "paused": true })).send().await.expect(200);
    let paused: Value = serde_json::from_str(&events.until("queue.pause").await.data).unwrap();
    assert_eq!((&paused["subject"], &paused["actor"]), (&json!("queue:mail"), &json!("admin")));
}

async fn b10_whoever_comes_back_is_told_what_he_missed(world: &World) {
    let mut stays = world.call("GET", "/events?topics=jobs").listen().await;
    let mut leaves = world.call("GET", "/events?topics=jobs").listen().await;
    world.store.enqueue_jobs(vec![job()]).await.unwrap();
    let seen = leaves.until("job.created").await.id.unwrap();
    drop(leaves);
    let second = world.store.enqueue_jobs(vec![job()]).await.unwrap()[0];
    stays.until("job.created").await;
    let told = stays.until("job.created").await;
    assert!(told.data.contains(&second.to_string()));
    let mut back = world.call("GET", "/events?topics=jobs").header("Last-Event-ID", &seen).listen().await;
    assert_eq!(back.next().await.unwrap().kind, "ready");
    assert_eq!(back.until("job.created").await, told);
    let mut stranger = world.call("GET", "/events").header("Last-Event-ID", "other-1").listen().await;
    assert_eq!(stranger.next().await.unwrap().kind, "reset", "what he missed cannot be told, and he is told so");
}

async fn b10_a_change_says_which_list_it_is_about(world: &World) {
    let ada = world.token("ada", Role::Operator).await;
    let mut all = world.call("GET", "/events").listen().await;
    let mut hers = world.bare("GET", "/events").token(&ada).listen().await;
    assert_eq!(all.next().await.unwrap().kind, "ready");
    assert_eq!(hers.next().await.unwrap().kind, "ready");
    let flow = json!({ "steps": [{ "name": "a", "target": { "kind": "task", "name": "work" } }] });
    world.call("PUT", "/flows/nightly").json(&flow).send().await.expect(200);
    world.call("PUT", "/limits/queue:mail").json(&json!({ "concurrency": 2 })).send().await.expect(200);
    let target = json!({ "kind": "slack", "url": "https://hooks.example/services" });
    let channel = json!({ "name": "ops", "target": target });
    world.post("/channels", &channel).await.expect(201);
    for (kind, topic) in [("flow.save", "flows"), ("limit.set", "limits"), ("channel.create", "channels")] {
        let told: Value = serde_json::from_str(&all.until(kind).await.data).unwrap();
        assert_eq!(told["topic"], topic, "{told}");
    }
    let told: Value = serde_json::from_str(&hers.next().await.unwrap().data).unwrap();
    assert_eq!(told["topic"], "limits", "the flow is not hers, and limits are everybody's: {told}");
}

async fn b10_nodes_that_come_and_go_are_told(world: &World) {
    let mut events = world.call("GET", "/events?topics=nodes").listen().await;
    assert_eq!(events.next().await.unwrap().kind, "ready");
    // The first look only learns who is there; a change of the same topic shows that it has been.
    let mut follows = world.call("GET", "/events?topics=queues").listen().await;
    world.call("PATCH", "/queues/mail").json(&json!({ "paused": true })).send().await.expect(200);
    follows.until("queue.pause").await;
    let node = NewNode { name: "worker-7".into(), offers: vec!["command".into()] };
    let lease = world.store.register_node(node).await.unwrap();
    let joined: Value = serde_json::from_str(&events.until("node.joined").await.data).unwrap();
    let id = lease.node_id.to_string();
    assert_eq!((&joined["topic"], &joined["id"], &joined["name"]), (&json!("nodes"), &json!(id), &json!("worker-7")));
    world.store.leave_if_leased(lease).await.unwrap();
    let gone: Value = serde_json::from_str(&events.until("node.gone").await.data).unwrap();
    assert_eq!(gone["id"], joined["id"]);
}

async fn a26_events_of_others_are_not_told(world: &World) {
    let ada = world.token("ada", Role::Operator).await;
    let mut hers = world.bare("GET", "/events").token(&ada).listen().await;
    assert_eq!(hers.next().await.unwrap().kind, "ready");
    world.store.enqueue_jobs(vec![NewJob { owner: Some("eve".into()), ..job() }, job()]).await.unwrap();
    let own = world.store.enqueue_jobs(vec![NewJob { owner: Some("ada".into()), ..job() }]).await.unwrap()[0];
    let first = hers.until("job.created").await;
    assert!(first.data.contains(&own.to_string()), "the first that she hears of is her own: {}", first.data);
}
