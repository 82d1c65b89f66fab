// Where the dashboard begins: preferences before anything is drawn, then the application.
import { mount } from 'svelte';
import App from './App.svelte';
import './style.css';
import { preferences } from './app/preferences.svelte';

preferences.apply();
const target = document.getElementById('app');
if (target) mount(App, { target });
