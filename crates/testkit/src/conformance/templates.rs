//! Templates with parameters, and cron presets.

use crate::prelude::*;
use punctual_core::cron::CronPreset;
use punctual_core::job::NewJob;
use punctual_core::store::StoreError;
use punctual_core::template::{Parameter, ParameterKind};

fn payday(name: &str) -> CronPreset {
    let (expression, description) = ("0 9 25 * *".to_owned(), "wäges".to_owned());
    CronPreset { name: name.to_owned(), expression, description, created_at: None }
}

pub async fn d09_a_template_keeps_its_parameters(world: &mut World) {
    let parameters = vec![
        Parameter { description: "wohin".into(), ..Parameter::required("to", ParameterKind::Text) },
        Parameter::optional("n", ParameterKind::Number, Some(json("12345678901234567890.10"))),
        Parameter::optional("any", ParameterKind::Json, None),
    ];
    let made = world.store().create_template(named("letter"), job(), parameters.clone()).await.expect("it is stored");
    assert_eq!(made.parameters, parameters);
    world.reopen().await;
    assert_eq!(world.store().template("letter").await, Ok(Some(made.clone())));
    assert_eq!(world.store().templates(None, 10).await, Ok(vec![made]));
    let list = NewJob { input: json("[1]"), ..job() };
    assert_eq!(refusal(world.store().create_template(named("list"), list, parameters).await).field, "input");
    let twice = vec![Parameter::required("a", ParameterKind::Text); 2];
    assert_eq!(refusal(world.store().create_template(named("two"), job(), twice).await).field, "parameters.a");
}

pub async fn d09_a_template_can_be_forgotten_and_its_name_used_again(world: &mut World) {
    let made = world.store().create_template(named("t"), job(), vec![]).await.expect("it is stored");
    let from_it = world.enqueue(NewJob { template_id: Some(made.id), ..job() }).await;
    world.store().delete_template("t").await.expect("it is forgotten");
    assert_eq!(world.store().template("t").await, Ok(None));
    assert_not_found(world.store().delete_template("t").await, "template");
    assert_eq!(world.job(from_it).await.job.spec.template_id, Some(made.id), "what was made from it stays");
    world.store().create_template(named("t"), job(), vec![]).await.expect("the name is free");
}

pub async fn d09_cron_presets_are_kept_by_name(world: &mut World) {
    let made = world.store().create_cron_preset(payday("payday")).await.expect("it is stored");
    assert_eq!(made, CronPreset { created_at: Some(clock_time("00:00:00")), ..payday("payday") });
    world.reopen().await;
    assert_eq!(world.store().cron_preset("payday").await, Ok(Some(made.clone())));
    let taken = world.store().create_cron_preset(payday("payday")).await;
    assert_eq!(taken, Err(StoreError::NameTaken { what: "cron preset", name: "payday".into() }));
    let other = world.store().create_cron_preset(payday("a")).await.expect("it is stored");
    assert_eq!(world.store().cron_presets(None, 10).await, Ok(vec![other.clone(), made.clone()]));
    assert_eq!(world.store().cron_presets(Some("a"), 10).await, Ok(vec![made]));
    assert_eq!(world.store().cron_presets(None, 1).await, Ok(vec![other]));
    world.store().delete_cron_preset("payday").await.expect("it is forgotten");
    assert_eq!(world.store().cron_preset("payday").await, Ok(None));
    assert_not_found(world.store().delete_cron_preset("payday").await, "cron preset");
    assert_eq!(refusal(world.store().create_cron_preset(payday("daily")).await).field, "name", "it comes along");
    let wrong = CronPreset { expression: "61 * * * *".into(), ..payday("b") };
    assert_eq!(refusal(world.store().create_cron_preset(wrong).await).field, "expression");
}
